#include "daemon/stream/counters.h"

namespace stoker::stream {

void StreamCounters::Add(const pipeline::BuildCounters& counted) {
  rows_ += counted.rows;
  replaced_ += counted.replaced;
  defaulted_ += counted.defaulted;
  duplicate_keys_ += counted.parse.duplicate_keys;
  ambiguous_ += counted.parse.ambiguous;
  image_warnings_ += counted.image.jpeg_warnings + counted.image.png_warnings;
  truncated_images_ += counted.image.truncated;
}

void StreamCounters::AddBatch(std::uint32_t rows) {
  ++batches_;
  delivered_rows_ += rows;
}

void StreamCounters::AddBad(const pipeline::BadRow& bad, const std::string& shard,
                            std::uint64_t epoch) {
  ++bad_[static_cast<std::size_t>(bad.fault)];
  v1::BadRecord record;
  record.set_shard(shard);
  record.set_record(plan::RecordOf(bad.id));
  record.set_offset(bad.offset);
  record.set_fault(std::string(FaultName(bad.fault)));
  record.set_detail(bad.detail);
  record.set_epoch(epoch);
  record.set_row(bad.row);
  std::lock_guard lock(mutex_);
  last_bad_.push_back(std::move(record));
  if (last_bad_.size() > kKept) last_bad_.pop_front();
}

void StreamCounters::Describe(v1::Counters* out) const {
  out->set_rows(delivered_rows_);
  out->set_batches(batches_);
  out->set_replaced(replaced_);
  out->set_defaulted(defaulted_);
  out->set_duplicate_keys(duplicate_keys_);
  out->set_ambiguous(ambiguous_);
  out->set_image_warnings(image_warnings_);
  out->set_truncated_images(truncated_images_);
  std::uint64_t all = 0;
  for (int i = 1; i < kFaultClasses; ++i) {
    const std::uint64_t count = bad_[static_cast<std::size_t>(i)];
    if (count == 0) continue;
    all += count;
    (*out->mutable_bad_by_class())[std::string(FaultName(static_cast<FaultClass>(i)))] = count;
  }
  out->set_bad_records(all);
}

void StreamCounters::DescribeBad(v1::StreamStatus* out) const {
  std::lock_guard lock(mutex_);
  for (const auto& record : last_bad_) *out->add_bad_record() = record;
}

}  // namespace stoker::stream
