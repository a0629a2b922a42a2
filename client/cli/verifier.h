// Verify: every checksum of every record of TFRecord files, on several threads.
//
// Threads take pieces of a file in turn. A piece's lengths are walked in order, which is quick; its
// payloads are then checked at leisure, while the bytes are still in the CPU's cache. Behind
// structural damage, where a reader ends, the rest is searched for records that `repair` would
// save.
//
// Thread-safety: plain function; it starts and joins its threads. Blocking: reads all files.
// Errors: what is wrong with a file is in its own answer. Memory: a piece a thread, and in damaged
//   or compressed files the longest record.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "client/cli/meter.h"
#include "client/cli/salvage.h"

namespace stoker::cli {

struct VerifiedFile {
  std::string path;
  std::string compression = "none";
  std::uint64_t bytes = 0;
  std::uint64_t records = 0;  // good, and within a reader's reach
  std::uint64_t beyond = 0;   // good, but behind structural damage
  std::vector<Loss> damage;   // in the file's order
  std::string error;          // it could not be read at all
};

std::vector<VerifiedFile> Verify(const std::vector<std::string>& paths, unsigned threads,
                                 Meter* meter);

}  // namespace stoker::cli
