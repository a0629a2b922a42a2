#include "config/text_format.h"

#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/text_format.h>

#include <string>

namespace stoker::config {
namespace {

constexpr int kMostErrors = 5;

class Errors final : public google::protobuf::io::ErrorCollector {
 public:
  explicit Errors(std::string_view file) : file_(file) {}

  void AddError(int line, google::protobuf::io::ColumnNumber column,
                const std::string& message) override {
    if (++count_ > kMostErrors) return;
    if (!text_.empty()) text_ += "; ";
    text_ +=
        file_ + ":" + std::to_string(line + 1) + ":" + std::to_string(column + 1) + ": " + message;
  }
  void AddWarning(int, google::protobuf::io::ColumnNumber, const std::string&) override {}

  const std::string& text() const { return text_; }

 private:
  const std::string file_;
  std::string text_;
  int count_ = 0;
};

}  // namespace

Status ParseText(std::string_view text, std::string_view file, std::string_view what,
                 std::string_view page, google::protobuf::Message* message) {
  // The parser recurses with the nesting of its input.
  constexpr int kDeepest = 32;
  constexpr std::size_t kLongest = 64 << 20;
  if (text.size() > kLongest) {
    return Status(Code::kInvalidArgument, std::string(file) + ": longer than 64 MiB");
  }
  Errors errors(file);
  google::protobuf::TextFormat::Parser parser;
  parser.RecordErrorsTo(&errors);
  parser.SetRecursionLimit(kDeepest);
  google::protobuf::io::ArrayInputStream input(text.data(), static_cast<int>(text.size()));
  if (parser.Parse(&input, message)) return Status();
  return Status(Code::kInvalidArgument,
                (errors.text().empty() ? std::string(file) : errors.text()) + " (this is not " +
                    std::string(what) + "; see " + std::string(page) + ")");
}

}  // namespace stoker::config
