#include "config/spec.h"

#include <google/protobuf/text_format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <string>

#include "config/ops.h"
#include "config/text_format.h"

namespace stoker::config {
namespace {

constexpr std::uint32_t kMaxBatch = 1u << 20;
constexpr std::uint32_t kMaxSlots = 64;
constexpr std::uint32_t kMaxExpect = 64;
constexpr std::uint32_t kMostCatchUp = 1024;
constexpr std::uint64_t kLeastLagMs = 100;
constexpr std::size_t kMaxName = 128;
constexpr int kMaxTensors = 256;
constexpr std::uint64_t kMaxRecordBytes = (std::uint64_t{1} << 31) - 1;
constexpr std::int64_t kMaxSide = (std::int64_t{1} << 31) - 1;
constexpr double kMaxRowValues = 1e12;

Status Wrong(const std::string& where, const std::string& what) {
  return Status(Code::kInvalidArgument, where + ": " + what);
}

bool IsName(const std::string& text, const char* others) {
  if (text.empty() || text.size() > kMaxName) return false;
  return std::all_of(text.begin(), text.end(), [others](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view(others).find(c) != std::string_view::npos;
  });
}

Status CheckSource(const v1::Source& source, const std::string& where) {
  if (source.files_size() == 0) return Wrong(where + ".files", "name at least one file or pattern");
  for (const auto& file : source.files()) {
    if (file.empty() || file.find('\0') != std::string::npos) {
      return Wrong(where + ".files", "an empty path");
    }
  }
  if (source.max_record_bytes() == 0) return Wrong(where + ".max_record_bytes", "is 1 or more");
  if (source.bad_row() == v1::REPLACE && source.on_bad_record() == v1::FAIL) {
    return Wrong(where + ".bad_row", "REPLACE needs on_bad_record: SKIP");
  }
  return Status();
}

Status CheckOrder(const v1::Order& order) {
  if (order.has_repeat() && order.repeat() == 0) return Wrong("order.repeat", "is 1 or more");
  if (order.has_take() && order.take() == 0) return Wrong("order.take", "is 1 or more");
  if (order.has_window() && order.shuffle() != v1::Order::WINDOW) {
    return Wrong("order.window", "belongs to shuffle: WINDOW");
  }
  if (order.has_interleave() && order.shuffle() == v1::Order::GLOBAL) {
    return Wrong("order.interleave", "has no meaning under shuffle: GLOBAL; leave it out");
  }
  if (order.shuffle() == v1::Order::WINDOW && order.window().rows() == 0) {
    return Wrong("order.window.rows", "is 1 or more");
  }
  if (order.has_interleave() &&
      (order.interleave().cycle() == 0 || order.interleave().block() == 0)) {
    return Wrong("order.interleave", "cycle and block are 1 or more");
  }
  if (order.has_split() &&
      (order.split().of() == 0 || order.split().part() >= order.split().of())) {
    return Wrong("order.split", "`of` is 1 or more and `part` is below it");
  }
  return Status();
}

Status CheckShape(const v1::Tensor& tensor, const std::string& where) {
  if (tensor.shape_size() > 7) return Wrong(where + ".shape", "has at most 7 sides");
  double values = 1;
  for (const auto side : tensor.shape()) {
    if (side < 0 || side > kMaxSide) {
      return Wrong(where + ".shape",
                   "sides are 0 to 2147483647; for a length that varies use "
                   "`ragged {}` or `padded {}`");
    }
    values *= static_cast<double>(side);
  }
  if (values > kMaxRowValues) return Wrong(where + ".shape", "holds more than 10^12 values");
  return Status();
}

Status CheckImage(const v1::Tensor& tensor, const std::string& where) {
  const auto& image = tensor.image();
  if (image.channels() != 1 && image.channels() != 3) {
    return Wrong(where + ".image.channels", "is 1 or 3");
  }
  if (tensor.shape_size() > 0) {
    return Wrong(where + ".shape", "an image's shape comes from its ops; leave it out");
  }
  if (image.max_pixels() == 0) return Wrong(where + ".image.max_pixels", "is 1 or more");
  if (image.max_scans() == 0) return Wrong(where + ".image.max_scans", "is 1 or more");
  if (image.max_decoded_bytes() == 0) {
    return Wrong(where + ".image.max_decoded_bytes", "is 1 or more");
  }
  switch (tensor.dtype()) {
    case v1::UINT8:
    case v1::UINT16:
    case v1::FLOAT32:
    case v1::FLOAT16:
    case v1::BFLOAT16:
      return Status();
    default:
      return Wrong(where + ".dtype", "images are UINT8, UINT16, FLOAT32, FLOAT16 or BFLOAT16");
  }
}

// Whether padding of `dtype` can hold `value` as it is written. Whole numbers are exact in a double
// up to 2^53.
bool Holds(v1::DType dtype, double value) {
  constexpr double kExact = 9007199254740992.0;
  const auto whole = [value](double least, double most) {
    return value >= least && value <= most && std::trunc(value) == value;
  };
  switch (dtype) {
    case v1::BOOL:
      return whole(0, 1);
    case v1::UINT8:
      return whole(0, 255);
    case v1::INT8:
      return whole(-128, 127);
    case v1::UINT16:
      return whole(0, 65535);
    case v1::INT16:
      return whole(-32768, 32767);
    case v1::UINT32:
      return whole(0, 4294967295.0);
    case v1::INT32:
      return whole(-2147483648.0, 2147483647.0);
    case v1::UINT64:
      return whole(0, kExact);
    case v1::INT64:
      return whole(-kExact, kExact);
    default:
      return true;
  }
}

Status CheckForm(const v1::Tensor& tensor, const std::string& where) {
  const bool variable = tensor.has_ragged() || tensor.has_padded();
  if (variable && (tensor.has_image() || tensor.has_decode_raw())) {
    return Wrong(where, "an image or decode_raw has a fixed size; leave ragged and padded out");
  }
  if (tensor.feature_list() && !variable) {
    return Wrong(where + ".feature_list", "a list has any number of steps; add ragged or padded");
  }
  if (tensor.allow_missing() && !tensor.feature_list()) {
    return Wrong(where + ".allow_missing",
                 "belongs to feature_list; a missing feature of variable length has zero values, "
                 "and a fixed one takes a default_value");
  }
  if (variable && tensor.shape_size() > 0) {
    return Wrong(where + ".shape", "has no meaning beside ragged or padded");
  }
  if (variable && tensor.has_default_value()) {
    return Wrong(where + ".default_value", "a missing feature of variable length has zero values");
  }
  if (tensor.has_padded() && tensor.dtype() == v1::BYTES) {
    return Wrong(where + ".padded", "byte strings are delivered ragged");
  }
  if (tensor.has_padded() && tensor.padded().has_length() && tensor.padded().length() == 0) {
    return Wrong(where + ".padded.length", "is 1 or more");
  }
  if (tensor.has_padded() && tensor.padded().truncate() && !tensor.padded().has_length()) {
    return Wrong(where + ".padded.truncate", "needs `length`");
  }
  if (tensor.has_padded() && !Holds(tensor.dtype(), tensor.padded().value())) {
    return Wrong(where + ".padded.value",
                 "is no value of " + v1::DType_Name(tensor.dtype()) +
                     "; whole numbers in its range pad integers, up to 2^53 either way");
  }
  if (tensor.has_decode_raw() && (tensor.decode_raw().dtype() == v1::BYTES ||
                                  tensor.decode_raw().dtype() == v1::DTYPE_UNSPECIFIED)) {
    return Wrong(where + ".decode_raw.dtype", "is the dtype of the stored numbers");
  }
  if (tensor.layout() != v1::LAYOUT_UNSPECIFIED && !tensor.has_image()) {
    return Wrong(where + ".layout", "belongs to images");
  }
  if (!tensor.group().empty() && !tensor.has_image()) {
    return Wrong(where + ".group", "belongs to images");
  }
  if (tensor.dtype() == v1::BYTES && tensor.op_size() > 0) {
    return Wrong(where + ".op", "byte strings have no operations");
  }
  return Status();
}

// What the stored list must be, and that a dtype other than its own ends in a cast.
Status CheckKind(const v1::Tensor& tensor, const std::string& where) {
  if (tensor.has_image() || tensor.has_decode_raw() || tensor.dtype() == v1::BYTES) {
    if (tensor.kind() == v1::KIND_INT64 || tensor.kind() == v1::KIND_FLOAT) {
      return Wrong(where + ".kind", "images, decode_raw and BYTES read a bytes_list");
    }
    return Status();
  }
  if (tensor.kind() == v1::KIND_BYTES) {
    return Wrong(where + ".kind", "a bytes_list needs image, decode_raw or dtype: BYTES");
  }
  const std::string name = v1::DType_Name(tensor.dtype());
  if (tensor.kind() == v1::KIND_UNSPECIFIED && tensor.dtype() != v1::INT64 &&
      tensor.dtype() != v1::FLOAT32) {
    return Wrong(where + ".dtype",
                 name +
                     " is no stored type: a float_list holds FLOAT32, an int64_list INT64. Give "
                     "kind: KIND_FLOAT or KIND_INT64 and widen with op { cast { dtype: " +
                     name + " } }");
  }
  return Status();
}

Status CheckTensor(const v1::Tensor& tensor, const std::string& where) {
  if (!IsName(tensor.name(), "._/-")) {
    return Wrong(where + ".name", "is 1 to 128 of [A-Za-z0-9._/-]");
  }
  if (tensor.name() == "row_ids" || tensor.name() == "valid") {
    return Wrong(where + ".name", "\"" + tensor.name() + "\" is Stoker's own; choose another");
  }
  if (tensor.dtype() == v1::DTYPE_UNSPECIFIED) return Wrong(where + ".dtype", "is required");
  STOKER_TRY(CheckShape(tensor, where));
  STOKER_TRY(CheckForm(tensor, where));
  STOKER_TRY(CheckKind(tensor, where));
  if (tensor.has_image()) STOKER_TRY(CheckImage(tensor, where));
  return CheckOps(tensor, where);
}

Status CheckDelivery(const v1::Delivery& delivery) {
  if (delivery.slots() < 2 || delivery.slots() > kMaxSlots) {
    return Wrong("delivery.slots", "is 2 to 64");
  }
  if (delivery.expect() < 1 || delivery.expect() > kMaxExpect) {
    return Wrong("delivery.expect", "is 1 to 64");
  }
  if (delivery.expect() > 1 && delivery.mode() != v1::Delivery::BROADCAST) {
    return Wrong("delivery.expect", "belongs to mode: BROADCAST");
  }
  const bool broadcast = delivery.mode() == v1::Delivery::BROADCAST;
  if (delivery.has_catch_up() && (!broadcast || delivery.catch_up() > kMostCatchUp)) {
    return Wrong("delivery.catch_up", "belongs to mode: BROADCAST and is at most 1024");
  }
  if (delivery.has_max_lag_ms() && (!broadcast || delivery.max_lag_ms() < kLeastLagMs)) {
    return Wrong("delivery.max_lag_ms", "belongs to mode: BROADCAST and is at least 100");
  }
  return Status();
}

// Where the dtype says how a feature is stored. It does not for FLOAT64 and its like: a cast must
// be asked for, so the kind stays open and is refused.
void FillKind(v1::Tensor* tensor) {
  if (tensor->kind() != v1::KIND_UNSPECIFIED) return;
  if (tensor->has_image() || tensor->has_decode_raw() || tensor->dtype() == v1::BYTES) {
    tensor->set_kind(v1::KIND_BYTES);
  } else if (tensor->dtype() == v1::INT64) {
    tensor->set_kind(v1::KIND_INT64);
  } else if (tensor->dtype() == v1::FLOAT32) {
    tensor->set_kind(v1::KIND_FLOAT);
  }
}

}  // namespace

Result<v1::StreamSpec> ParseSpec(std::string_view text, std::string_view file) {
  v1::StreamSpec spec;
  STOKER_TRY(ParseText(text, file, "a stream spec", "docs/reference/spec.md", &spec));
  return spec;
}

Status FillDefaults(v1::StreamSpec* spec) {
  for (auto& source : *spec->mutable_source()) {
    if (!source.has_max_bad_records()) source.set_max_bad_records(100);
    if (!source.has_max_record_bytes()) source.set_max_record_bytes(kMaxRecordBytes);
  }
  auto* order = spec->mutable_order();
  if (!order->has_reshuffle()) order->set_reshuffle(true);
  if (order->shuffle() == v1::Order::WINDOW) {
    if (!order->window().has_rows()) order->mutable_window()->set_rows(10000);
  }
  if (order->shuffle() != v1::Order::GLOBAL) {
    auto* interleave = order->mutable_interleave();
    if (!interleave->has_cycle()) {
      interleave->set_cycle(order->shuffle() == v1::Order::WINDOW ? 16 : 1);
    }
    if (!interleave->has_block()) interleave->set_block(1);
  }
  for (auto& tensor : *spec->mutable_tensor()) {
    if (tensor.feature().empty()) tensor.set_feature(tensor.name());
    FillKind(&tensor);
    if (tensor.has_padded() && !tensor.padded().has_value()) tensor.mutable_padded()->set_value(0);
    FillOpDefaults(&tensor);
    if (!tensor.has_image()) continue;
    auto* image = tensor.mutable_image();
    if (tensor.layout() == v1::LAYOUT_UNSPECIFIED) tensor.set_layout(v1::NHWC);
    if (!image->has_channels()) image->set_channels(3);
    if (image->dct() == v1::Image::DCT_DEFAULT) {
      image->set_dct(image->profile() == v1::Image::TF ? v1::Image::FAST : v1::Image::ACCURATE);
    }
    if (!image->has_max_pixels()) image->set_max_pixels(178000000);
    if (!image->has_max_scans()) image->set_max_scans(500);
    if (!image->has_max_decoded_bytes()) image->set_max_decoded_bytes(std::uint64_t{1} << 30);
  }
  auto* delivery = spec->mutable_delivery();
  if (!delivery->has_slots()) delivery->set_slots(4);
  if (!delivery->has_expect()) delivery->set_expect(1);
  if (!delivery->has_linger_ms()) delivery->set_linger_ms(60000);
  return Status();
}

Status ValidateSpec(const v1::StreamSpec& spec) {
  if (!IsName(spec.name(), "._-")) return Wrong("name", "is 1 to 128 of [A-Za-z0-9._-]");
  if (spec.source_size() == 0) return Wrong("source", "is required");
  if (spec.source_size() > 1) {
    return Wrong("source", "mixtures of several sources are not served by this version");
  }
  STOKER_TRY(CheckSource(spec.source(0), "source"));
  STOKER_TRY(CheckOrder(spec.order()));
  if (spec.tensor_size() == 0) return Wrong("tensor", "a batch needs at least one");
  if (spec.tensor_size() > kMaxTensors) return Wrong("tensor", "a batch has at most 256");
  std::set<std::string> names;
  for (int i = 0; i < spec.tensor_size(); ++i) {
    const auto& tensor = spec.tensor(i);
    const std::string where = "tensor[" + std::to_string(i) + "] \"" + tensor.name() + "\"";
    STOKER_TRY(CheckTensor(tensor, where));
    if (!names.insert(tensor.name()).second) return Wrong(where + ".name", "stands twice");
    if (tensor.feature_list() && spec.source(0).parser() != v1::STRICT) {
      return Wrong("source.parser", "SequenceExamples are read as STRICT reads them");
    }
    for (const char* companion : {"/row_splits", "/byte_splits", "/lengths"}) {
      names.insert(tensor.name() + companion);
    }
  }
  if (spec.batch().size() < 1 || spec.batch().size() > kMaxBatch) {
    return Wrong("batch.size", "is required, 1 to 1048576");
  }
  if (spec.cache().tier() == v1::Cache::ENCODED && spec.source(0).refresh() != v1::Source::NEVER) {
    return Wrong("cache.tier",
                 "ENCODED keeps copies that refresh: EPOCH throws away; leave one of them out");
  }
  return CheckDelivery(spec.delivery());
}

std::string SpecText(const v1::StreamSpec& spec) {
  std::string text;
  google::protobuf::TextFormat::PrintToString(spec, &text);
  return text;
}

}  // namespace stoker::config
