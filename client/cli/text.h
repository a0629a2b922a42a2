// Numbers and bytes as text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace stoker::cli {

std::string Bytes(std::uint64_t bytes);  // "1.5 MiB"
std::string Base64(const std::byte* bytes, std::size_t n);

}  // namespace stoker::cli
