# stoker_library(NAME SOURCES … [LINK …])      a room: static library, includes from the root
# stoker_test(NAME SOURCES … [LINK …] [LABELS …] [DATA])  one Catch2 program and its ctest entry
# stoker_fuzzer(NAME SOURCES … [LINK …])       a libFuzzer target; without clang, a replayer of
#                                              its corpus that ctest runs
function(stoker_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINK" ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES})
  target_include_directories(${name} PUBLIC ${CMAKE_SOURCE_DIR})
  target_link_libraries(${name} PUBLIC ${ARG_LINK})
endfunction()

# DATA: the test reads ../shared/data or ../shared/golden; where they are absent it prints why
# and leaves with 77, which ctest counts as skipped.
function(stoker_test name)
  cmake_parse_arguments(ARG "DATA" "TIMEOUT" "SOURCES;LINK;LABELS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR})
  if(ARG_DATA)
    target_link_libraries(${name} PRIVATE stoker_catch_data_main)
  else()
    target_link_libraries(${name} PRIVATE stoker_catch_main)
  endif()
  target_link_libraries(${name} PRIVATE ${ARG_LINK})
  add_test(NAME ${name} COMMAND ${name})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 600)
  endif()
  set_tests_properties(${name} PROPERTIES LABELS "${ARG_LABELS}" SKIP_RETURN_CODE 77
                       TIMEOUT ${ARG_TIMEOUT})
  if("threads" IN_LIST ARG_LABELS)
    add_dependencies(stoker_threads_tests ${name})
  endif()
endfunction()

function(stoker_fuzzer name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINK" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR})
  target_link_libraries(${name} PRIVATE ${ARG_LINK})
  if(STOKER_BUILD_FUZZERS)
    target_link_options(${name} PRIVATE -fsanitize=fuzzer)
    # New inputs go to a folder of the build; the corpus in the tree is read only.
    file(MAKE_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/found)
    add_test(NAME ${name} COMMAND ${name} -max_total_time=20 -rss_limit_mb=2048 -timeout=10
             -artifact_prefix=${CMAKE_CURRENT_BINARY_DIR}/ ${CMAKE_CURRENT_BINARY_DIR}/found
             ${CMAKE_SOURCE_DIR}/tests/fuzz/corpus/${name})
  else()
    target_link_libraries(${name} PRIVATE stoker_fuzz_replay)
    add_test(NAME ${name} COMMAND ${name} ${CMAKE_SOURCE_DIR}/tests/fuzz/corpus/${name})
  endif()
  set_tests_properties(${name} PROPERTIES LABELS fuzz TIMEOUT 300)
  add_dependencies(stoker_fuzzers ${name})
endfunction()
