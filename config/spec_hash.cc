#include "config/spec_hash.h"

#include <google/protobuf/text_format.h>

#include <string>

#include "daemon/base/crc32c.h"

namespace stoker::config {
namespace {

std::uint32_t Hash(const std::string& text) { return Crc32c(std::as_bytes(std::span(text))); }

// Fields in the schema's order, one line: deterministic, unlike serialised maps.
template <typename Message>
std::string Line(const Message& message) {
  google::protobuf::TextFormat::Printer printer;
  printer.SetSingleLineMode(true);
  std::string text;
  printer.PrintToString(message, &text);
  return text;
}

}  // namespace

PartHashes HashParts(const v1::StreamSpec& spec) {
  PartHashes hashes;
  std::string sources;
  for (v1::Source source : spec.source()) {
    source.clear_files();
    sources += Line(source) + "\n";
  }
  hashes.source = Hash(sources);
  v1::Order order = spec.order();
  order.clear_repeat();
  hashes.order = Hash(Line(order));
  std::string tensors;
  for (const auto& tensor : spec.tensor()) tensors += Line(tensor) + "\n";
  hashes.tensors = Hash(tensors);
  hashes.batch = Hash(Line(spec.batch()));
  hashes.delivery = Hash(Line(spec.delivery()));
  return hashes;
}

}  // namespace stoker::config
