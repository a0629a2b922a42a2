# Language, warnings and sanitizers for every target.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_C_STANDARD 11)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib)

option(STOKER_BUILD_TESTS "Build the tests" ON)
option(STOKER_BUILD_FUZZERS "Build libFuzzer targets (clang)" OFF)
# Test builds delay each run of rows by a hash of its number and carry kill points; a packaged
# build has neither.
option(STOKER_TEST_HOOKS "Compile the test hooks in" ON)
set(STOKER_SANITIZE "" CACHE STRING "Sanitizers, as -fsanitize takes them")

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE RelWithDebInfo)
endif()

find_program(STOKER_CCACHE ccache)
if(STOKER_CCACHE)
  set(CMAKE_C_COMPILER_LAUNCHER ${STOKER_CCACHE})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${STOKER_CCACHE})
endif()

# -ffp-contract=off: a fused multiply-add would make pixels depend on the CPU.
add_compile_options(-Wall -Wextra -Wshadow -Wpointer-arith -Wcast-qual -Werror -ffp-contract=off
                    -fno-strict-aliasing -fvisibility=hidden)
add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-Wnon-virtual-dtor>
                    $<$<COMPILE_LANGUAGE:CXX>:-Woverloaded-virtual>)
# At -O3 g++ 12 warns of overlapping copies in "literal" + std::string (GCC bug 105651).
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-Wno-restrict>
                      $<$<COMPILE_LANGUAGE:CXX>:-Wno-stringop-overread>
                      $<$<COMPILE_LANGUAGE:CXX>:-Wno-stringop-overflow>
                      $<$<COMPILE_LANGUAGE:CXX>:-Wno-array-bounds>)
endif()
if(STOKER_SANITIZE)
  add_compile_options(-fsanitize=${STOKER_SANITIZE} -fno-omit-frame-pointer
                      -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${STOKER_SANITIZE})
endif()
if(STOKER_BUILD_FUZZERS)
  add_compile_options(-fsanitize=fuzzer-no-link)  # coverage in the code under test too
endif()
if(STOKER_TEST_HOOKS)
  add_compile_definitions(STOKER_TEST_HOOKS=1)
endif()
