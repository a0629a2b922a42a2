#include "daemon/pipeline/batch_builder.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "daemon/base/test_hooks.h"
#include "daemon/pipeline/dtype.h"

namespace stoker::pipeline {
namespace {

using Form = TensorProgram::Form;

constexpr std::uint32_t kSpares = 16;
constexpr std::uint32_t kGroup = 16;  // rows whose records are asked for at once

template <typename T>
void SwapItems(std::byte* bytes, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) {
    std::reverse(bytes + i * sizeof(T), bytes + (i + 1) * sizeof(T));
  }
}

void SwapItems(std::uint32_t item, std::byte* bytes, std::size_t n) {
  if (item == 2) SwapItems<std::uint16_t>(bytes, n);
  if (item == 4) SwapItems<std::uint32_t>(bytes, n);
  if (item == 8) SwapItems<std::uint64_t>(bytes, n);
}

// Raw items of `dtype`, in host order, into the vector that ValueProgram enters by.
template <typename T>
void LoadInts(const std::byte* bytes, std::size_t n, std::vector<std::int64_t>* out) {
  out->resize(n);
  for (std::size_t i = 0; i < n; ++i) {
    T item;
    std::memcpy(&item, bytes + i * sizeof(T), sizeof(T));
    (*out)[i] = static_cast<std::int64_t>(item);  // NOLINT(bugprone-signed-char-misuse): a number
  }
}

void LoadRaw(v1::DType dtype, const std::byte* bytes, std::size_t n, ValueScratch* s) {
  switch (dtype) {
    case v1::BOOL:
    case v1::UINT8:
      return LoadInts<std::uint8_t>(bytes, n, &s->ints);
    case v1::INT8:
      return LoadInts<std::int8_t>(bytes, n, &s->ints);
    case v1::UINT16:
      return LoadInts<std::uint16_t>(bytes, n, &s->ints);
    case v1::INT16:
      return LoadInts<std::int16_t>(bytes, n, &s->ints);
    case v1::UINT32:
      return LoadInts<std::uint32_t>(bytes, n, &s->ints);
    case v1::INT32:
      return LoadInts<std::int32_t>(bytes, n, &s->ints);
    case v1::UINT64:
    case v1::INT64:
      return LoadInts<std::int64_t>(bytes, n, &s->ints);
    case v1::FLOAT64:
      s->doubles.resize(n);
      std::memcpy(s->doubles.data(), bytes, n * sizeof(double));
      return;
    case v1::FLOAT32:
      s->floats.resize(n);
      std::memcpy(s->floats.data(), bytes, n * sizeof(float));
      return;
    default:
      s->floats.resize(n);
      for (std::size_t i = 0; i < n; ++i) {
        std::uint16_t item;
        std::memcpy(&item, bytes + 2 * i, sizeof(item));
        s->floats[i] = dtype == v1::FLOAT16 ? FromFloat16(item) : FromBfloat16(item);
      }
  }
}

// The stored values of a span into the scratch.
void LoadSpan(const TensorProgram& tensor, const example::FeatureSpan& span, ValueScratch* s) {
  if (tensor.values.entry() == ValueProgram::Entry::kInt64) {
    s->ints.resize(span.count);
    example::CopyInt64(span, s->ints.data());
  } else {
    s->floats.resize(span.count);
    example::CopyFloat(span, s->floats.data());
  }
}

}  // namespace

RowWorker::RowWorker(std::shared_ptr<const RowProgram> program)
    : program_(std::move(program)),
      parser_(&program_->features(), program_->parser_mode()),
      sequence_parser_(&program_->features()),
      spans_(program_->features().size()) {}

BatchBuilder::BatchBuilder(std::shared_ptr<const RowProgram> program, std::uint64_t seed,
                           std::uint32_t rows_per_run)
    : program_(std::move(program)),
      seed_(seed),
      rows_per_run_(rows_per_run),
      counts_(program_->tensors().size()),
      sizes_(program_->tensors().size()),
      rooms_(program_->tensors().size()),
      totals_(program_->tensors().size()),
      used_(program_->tensors().size()) {
  const std::uint32_t batch = program_->batch();
  runs_.resize((batch + rows_per_run_ - 1) / rows_per_run_);
  ids_.resize(batch);
  faults_.resize(batch);
  for (std::size_t t = 0; t < counts_.size(); ++t) {
    if (!program_->tensors()[t].counted()) continue;
    counts_[t].resize(batch);
    rooms_[t].resize(batch);
    if (program_->tensors()[t].form == Form::kBytes) sizes_[t].resize(batch);
  }
}

void BatchBuilder::Begin(std::shared_ptr<const EpochData> data, std::byte* slot,
                         std::uint32_t generation, const BatchIdentity& identity) {
  generation_ = generation;
  data_ = std::move(data);
  identity_ = identity;
  writer_.Begin(program_->slot_plan(), slot);
  run_count_ = (identity.rows + rows_per_run_ - 1) / rows_per_run_;
  for (std::uint32_t i = 0; i < run_count_; ++i) {
    runs_[i].begin = i * rows_per_run_;
    runs_[i].end = std::min(identity.rows, (i + 1) * rows_per_run_);
  }
  std::fill(faults_.begin(), faults_.end(), FaultClass::kNone);
  bad_.clear();
}

// Asks the CPU for the records of rows [begin, end), and answers `end`. Many at once: an address
// translation holds up what comes behind it, but not the translations beside it.
std::uint32_t BatchBuilder::AskAhead(std::uint32_t begin, std::uint32_t end,
                                     const io::RecordBlock& block) const {
  for (std::uint32_t i = begin; i < end; ++i) {
    data_->dataset->PrefetchPlace(plan::ShardOf(ids_[i]), plan::RecordOf(ids_[i]));
  }
  for (std::uint32_t i = begin; i < end; ++i) {
    data_->dataset->Prefetch(plan::ShardOf(ids_[i]), plan::RecordOf(ids_[i]), block);
  }
  return end;
}

void BatchBuilder::ReadRun(const Run& run, io::RecordBlock* block) const {
  block->Clear();
  // Neighbouring records of one shard are read at once.
  std::uint32_t asked = run.begin;
  for (std::uint32_t i = run.begin; i < run.end;) {
    if (i + kGroup > asked) {
      asked = AskAhead(asked, std::min(run.end, i + 2 * kGroup), *block);
    }
    const std::uint32_t shard = plan::ShardOf(ids_[i]);
    const std::uint64_t record = plan::RecordOf(ids_[i]);
    if (const io::Damage* damage = data_->dataset->DamageAt(shard, record)) {
      block->AppendFault(damage->fault, record, damage->offset, damage->detail);
      ++i;
      continue;
    }
    std::uint32_t n = 1;
    while (i + n < run.end && ids_[i + n] == ids_[i] + n &&
           data_->dataset->DamageAt(shard, record + n) == nullptr) {
      ++n;
    }
    data_->dataset->Read(shard, record, n, block);
    i += n;
  }
}

void BatchBuilder::RunRows(std::uint32_t number, RowWorker* worker) {
  Run& run = runs_[number];
  DelayRun(identity_.epoch * 1000003 + identity_.first_row + run.begin);
  const std::uint32_t rows = run.end - run.begin;
  data_->plan->Rows(identity_.epoch, identity_.first_row + run.begin,
                    std::span(ids_).subspan(run.begin, rows));
  io::RecordBlock& block = program_->two_phase() ? run.block : worker->block_;
  ReadRun(run, &block);
  const std::size_t features = program_->features().size();
  run.spares.clear();
  if (program_->two_phase()) run.spans.resize(rows * features);

  const auto records = block.records();
  for (std::uint32_t i = 0; i < rows; ++i) {
    const std::uint32_t place = run.begin + i;
    const auto spans = program_->two_phase() ? std::span(run.spans).subspan(i * features, features)
                                             : std::span(worker->spans_);
    worker->detail_.clear();
    FaultClass fault = records[i].fault;
    if (fault == FaultClass::kNone) {
      fault = DoRow(place, ids_[place], records[i], spans, worker);
    } else {
      worker->detail_ = block.fault_detail(i);
    }
    if (fault == FaultClass::kNone) continue;
    ClearCounts(place);
    std::string detail = worker->detail_;
    const bool replace =
        program_->bad_row() == v1::REPLACE && program_->on_bad_record() == v1::SKIP;
    const plan::RowId spare = replace ? Replace(place, spans, &run, worker) : plan::kFillerRow;
    const bool replaced = spare != plan::kFillerRow;
    MarkBad(place, fault, records[i].offset, std::move(detail), replaced, replace && !replaced);
    if (replaced) ids_[place] = spare;
  }
  worker->counters_.rows += rows;
}

// The first good record of the row's spare sequence, placed; kFillerRow where none of 16 is good.
plan::RowId BatchBuilder::Replace(std::uint32_t place, std::span<example::FeatureSpan> spans,
                                  Run* run, RowWorker* worker) {
  for (std::uint32_t k = 1; k <= kSpares; ++k) {
    const plan::RowId id = data_->plan->Spare(identity_.epoch, identity_.first_row + place, k);
    if (data_->dataset->DamageAt(plan::ShardOf(id), plan::RecordOf(id)) != nullptr) continue;
    io::RecordBlock block;
    data_->dataset->Read(plan::ShardOf(id), plan::RecordOf(id), 1, &block);
    run->spares.push_back(std::move(block));
    const io::Record& record = run->spares.back().records()[0];
    if (record.fault == FaultClass::kNone &&
        DoRow(place, id, record, spans, worker) == FaultClass::kNone) {
      ++worker->counters_.replaced;
      return id;
    }
    ClearCounts(place);
  }
  return plan::kFillerRow;
}

FaultClass BatchBuilder::DoRow(std::uint32_t place, plan::RowId id, const io::Record& record,
                               std::span<example::FeatureSpan> spans, RowWorker* worker) {
  auto* counted = &worker->counters_.parse;
  FaultClass fault =
      program_->sequences()
          ? worker->sequence_parser_.Parse(record.payload, spans, counted, &worker->detail_)
          : worker->parser_.Parse(record.payload, spans, counted, &worker->detail_);
  if (fault != FaultClass::kNone) return fault;
  for (const TensorProgram& tensor : program_->tensors()) {
    fault = DoTensor(tensor, place, id, record, spans[tensor.feature], worker);
    if (fault != FaultClass::kNone) return fault;
  }
  return FaultClass::kNone;
}

FaultClass BatchBuilder::DoTensor(const TensorProgram& tensor, std::uint32_t place, plan::RowId id,
                                  const io::Record& record, const example::FeatureSpan& span,
                                  RowWorker* worker) {
  const auto& request = program_->request(tensor.feature);
  const bool variable = tensor.form == Form::kRagged || tensor.form == Form::kPaddedFixed ||
                        tensor.form == Form::kPaddedLongest || tensor.ragged;
  if (span.kind != request.kind || (!variable && span.count != tensor.list_count)) {
    const FaultClass fault =
        request.list ? example::CheckList(request, span, &worker->detail_)
        : variable   ? example::CheckVariable(request, span, record.payload, &worker->detail_)
                     : example::CheckFixed(request, span, tensor.list_count, record.payload,
                                           &worker->detail_);
    if (fault != FaultClass::kNone) return fault;
  }
  const bool missing = span.kind == example::Kind::kNone;
  if (missing && !variable) {
    if (!tensor.has_default) {
      worker->detail_ = "feature \"" + request.name + "\" is missing";
      return FaultClass::kFeatureMissing;
    }
    ++worker->counters_.defaulted;
  }

  const std::size_t index = static_cast<std::size_t>(&tensor - program_->tensors().data());
  switch (tensor.form) {
    case Form::kFixed:
      return PlaceFixed(tensor, span, RowAt(tensor.slot_values, tensor.row_bytes, place), worker);
    case Form::kImage:
    case Form::kRaw: {
      std::span<const std::byte> value;
      if (missing) {
        value = std::as_bytes(std::span(tensor.default_bytes[0]));
      } else {
        example::ForEachBytes(span, [&value](std::span<const std::byte> v) { value = v; });
      }
      std::byte* out = RowAt(tensor.slot_values, tensor.row_bytes, place);
      if (tensor.form == Form::kRaw) return PlaceRaw(tensor, value, out, worker);
      const FaultClass image_fault = tensor.image->Run(
          worker->image_, value, seed_, id, static_cast<std::uint32_t>(identity_.epoch), out,
          &worker->counters_.image, &worker->detail_);
      if (image_fault != FaultClass::kNone) {
        worker->detail_ = "feature \"" + request.name + "\": " + worker->detail_;
      }
      return image_fault;
    }
    case Form::kBytes: {
      counts_[index][place] = missing && !variable ? tensor.fixed_count : span.count;
      std::uint64_t bytes = 0;
      if (missing && !variable) {
        for (const auto& value : tensor.default_bytes) bytes += value.size();
      } else if (!missing) {
        bytes = example::BytesTotal(span);
      }
      sizes_[index][place] = bytes;
      return FaultClass::kNone;
    }
    case Form::kRagged:
    case Form::kPaddedLongest:
      counts_[index][place] = span.count;
      return FaultClass::kNone;
    case Form::kPaddedFixed:
      return PlacePadded(tensor, place, span, worker);
  }
  return FaultClass::kNone;
}

FaultClass BatchBuilder::PlaceFixed(const TensorProgram& tensor, const example::FeatureSpan& span,
                                    std::byte* out, RowWorker* worker) {
  ValueScratch& s = worker->scratch_;
  const bool ints = tensor.stored == v1::INT64;
  if (span.kind == example::Kind::kNone) {
    if (tensor.values.is_identity()) {
      const void* from = ints ? static_cast<const void*>(tensor.default_ints.data())
                              : static_cast<const void*>(tensor.default_floats.data());
      if (tensor.row_bytes > 0) std::memcpy(out, from, tensor.row_bytes);
      return FaultClass::kNone;
    }
    if (ints) {
      s.ints = tensor.default_ints;
    } else {
      s.floats = tensor.default_floats;
    }
  } else if (tensor.values.is_identity()) {
    if (ints) {
      example::CopyInt64(span, reinterpret_cast<std::int64_t*>(out));
    } else {
      example::CopyFloat(span, reinterpret_cast<float*>(out));
    }
    return FaultClass::kNone;
  } else {
    LoadSpan(tensor, span, &s);
  }
  return tensor.values.Run(&s, out, &worker->detail_);
}

FaultClass BatchBuilder::PlaceRaw(const TensorProgram& tensor, std::span<const std::byte> value,
                                  std::byte* out, RowWorker* worker) {
  const std::uint32_t item = ItemBytes(tensor.stored);
  if (value.size() != tensor.fixed_count * item) {
    worker->detail_ = "feature \"" + program_->request(tensor.feature).name +
                      "\": decode_raw expects " + std::to_string(tensor.fixed_count * item) +
                      " bytes, got " + std::to_string(value.size());
    return FaultClass::kFeatureCount;
  }
  if (tensor.values.is_identity()) {
    if (!value.empty()) std::memcpy(out, value.data(), value.size());
    if (tensor.swap_bytes) SwapItems(item, out, tensor.fixed_count);
    return FaultClass::kNone;
  }
  if (!tensor.swap_bytes) {
    LoadRaw(tensor.stored, value.data(), tensor.fixed_count, &worker->scratch_);
  } else {
    worker->swapped_.assign(value.begin(), value.end());
    SwapItems(item, worker->swapped_.data(), tensor.fixed_count);
    LoadRaw(tensor.stored, worker->swapped_.data(), tensor.fixed_count, &worker->scratch_);
  }
  return tensor.values.Run(&worker->scratch_, out, &worker->detail_);
}

FaultClass BatchBuilder::PlacePadded(const TensorProgram& tensor, std::uint32_t place,
                                     const example::FeatureSpan& span, RowWorker* worker) {
  std::uint64_t count = span.count;
  if (count > tensor.padded_length && !tensor.truncate) {
    worker->detail_ = "feature \"" + program_->request(tensor.feature).name + "\": padded to " +
                      std::to_string(tensor.padded_length) + " values, got " +
                      std::to_string(count) + "; raise length or set truncate";
    return FaultClass::kFeatureCount;
  }
  count = std::min(count, tensor.padded_length);
  LoadSpan(tensor, span, &worker->scratch_);
  worker->scratch_.ints.resize(std::min<std::size_t>(worker->scratch_.ints.size(), count));
  worker->scratch_.floats.resize(std::min<std::size_t>(worker->scratch_.floats.size(), count));
  std::byte* out = RowAt(tensor.slot_values, tensor.row_bytes, place);
  const FaultClass fault = tensor.values.Run(&worker->scratch_, out, &worker->detail_);
  if (fault != FaultClass::kNone) return fault;
  const std::size_t item = tensor.padding.size();
  for (std::uint64_t i = count; i < tensor.padded_length; ++i) {
    std::memcpy(out + i * item, tensor.padding.data(), item);
  }
  const auto length = static_cast<std::int64_t>(count);
  std::memcpy(RowAt(tensor.slot_lengths, sizeof(length), place), &length, sizeof(length));
  return FaultClass::kNone;
}

void BatchBuilder::ClearCounts(std::uint32_t place) {
  for (std::size_t t = 0; t < counts_.size(); ++t) {
    if (!counts_[t].empty()) counts_[t][place] = 0;
    if (!sizes_[t].empty()) sizes_[t][place] = 0;
  }
}

void BatchBuilder::MarkBad(std::uint32_t place, FaultClass fault, std::uint64_t offset,
                           std::string detail, bool replaced, bool hopeless) {
  if (!replaced) faults_[place] = fault;
  std::lock_guard lock(bad_mutex_);
  bad_.push_back({identity_.first_row + place, ids_[place], offset, fault, std::move(detail),
                  replaced, hopeless});
}

bool BatchBuilder::EndOfRows() {
  if (!program_->two_phase()) return false;
  DropOverflows();
  for (std::size_t t = 0; t < counts_.size(); ++t) {
    if (!counts_[t].empty()) LayOut(t);
  }
  return run_count_ > 0;
}

// Whether `row` has a place in the batch as it is delivered.
bool BatchBuilder::Stays(std::uint32_t row) const {
  return row >= identity_.rows || faults_[row] == FaultClass::kNone ||
         program_->bad_row() == v1::MASK;
}

// A row is bad when one of its tensors has no room left, in row order; its other tensors then
// take no room either.
void BatchBuilder::DropOverflows() {
  std::fill(used_.begin(), used_.end(), 0);
  for (std::uint32_t row = 0; row < identity_.rows; ++row) {
    for (std::size_t t = 0; t < counts_.size(); ++t) {
      if (counts_[t].empty()) continue;
      const TensorProgram& tensor = program_->tensors()[t];
      const std::uint64_t need = Measure(t, row);
      const std::uint64_t used = tensor.form == Form::kPaddedLongest ? 0 : used_[t];
      if (need <= tensor.max_values && used <= tensor.max_values - need) continue;
      MarkBad(row, FaultClass::kBatchOverflow, 0,
              "tensor \"" + tensor.name + "\": " + std::to_string(need) + " values after " +
                  std::to_string(used) + " do not fit in max_values " +
                  std::to_string(tensor.max_values),
              false, false);
      ClearCounts(row);
      break;
    }
    for (std::size_t t = 0; t < counts_.size(); ++t) {
      if (!counts_[t].empty()) used_[t] += Measure(t, row);
    }
  }
}

// Values of a row, bytes where the values are byte strings.
std::uint64_t BatchBuilder::Measure(std::size_t t, std::uint32_t row) const {
  return program_->tensors()[t].form == Form::kBytes ? sizes_[t][row] : counts_[t][row];
}

void BatchBuilder::LayOut(std::size_t t) {
  const TensorProgram& tensor = program_->tensors()[t];
  const bool strings = tensor.form == Form::kBytes;
  Room room;
  std::uint32_t out_row = 0;
  for (std::uint32_t row = 0; row < identity_.rows + identity_.filler; ++row) {
    if (!Stays(row)) continue;
    rooms_[t][row] = room;
    if (tensor.slot_row_splits >= 0) {
      SetOffset(tensor.slot_row_splits, out_row, strings ? room.strings : room.values);
    }
    ++out_row;
    const bool good = row < identity_.rows && faults_[row] == FaultClass::kNone;
    if (good) {
      room.longest = std::max(room.longest, counts_[t][row]);
      room.values += Measure(t, row);
      room.strings += counts_[t][row];
    } else if (strings && !tensor.ragged) {
      for (std::uint64_t i = 0; i < tensor.fixed_count; ++i) {
        SetOffset(tensor.slot_byte_splits, room.strings++, room.values);
      }
    }
  }
  if (tensor.slot_row_splits >= 0) {
    SetOffset(tensor.slot_row_splits, out_row, strings ? room.strings : room.values);
  }
  if (strings) SetOffset(tensor.slot_byte_splits, room.strings, room.values);
  totals_[t] = room;
}

void BatchBuilder::PlaceRun(std::uint32_t number, RowWorker* worker) {
  const Run& run = runs_[number];
  const std::size_t features = program_->features().size();
  for (std::size_t t = 0; t < counts_.size(); ++t) {
    if (counts_[t].empty()) continue;
    const TensorProgram& tensor = program_->tensors()[t];
    for (std::uint32_t row = run.begin; row < run.end; ++row) {
      if (faults_[row] != FaultClass::kNone) continue;
      PlaceCounted(t, row, run.spans[(row - run.begin) * features + tensor.feature], worker);
    }
  }
}

void BatchBuilder::PlaceCounted(std::size_t t, std::uint32_t row, const example::FeatureSpan& span,
                                RowWorker* worker) {
  const TensorProgram& tensor = program_->tensors()[t];
  const std::uint64_t item = ItemBytes(tensor.dtype);
  if (tensor.form == Form::kBytes) return PlaceStrings(t, row, span);

  std::byte* out = nullptr;
  if (tensor.form == Form::kPaddedLongest) {
    const std::uint64_t longest = totals_[t].longest;
    out = RowAt(tensor.slot_values, longest * item, row);
    for (std::uint64_t i = counts_[t][row]; i < longest; ++i) {
      std::memcpy(out + i * item, tensor.padding.data(), item);
    }
    const auto length = static_cast<std::int64_t>(counts_[t][row]);
    std::memcpy(RowAt(tensor.slot_lengths, sizeof(length), row), &length, sizeof(length));
  } else {
    out = RowAt(tensor.slot_values, item, 0) + rooms_[t][row].values * item;
  }
  if (span.count == 0) return;
  if (!tensor.values.is_identity()) {
    LoadSpan(tensor, span, &worker->scratch_);
    // Element-wise ops have no faults; only one_hot does, and it needs a fixed shape.
    (void)tensor.values.Run(&worker->scratch_, out, &worker->detail_);
  } else if (tensor.stored == v1::INT64) {
    example::CopyInt64(span, reinterpret_cast<std::int64_t*>(out));
  } else {
    example::CopyFloat(span, reinterpret_cast<float*>(out));
  }
}

void BatchBuilder::PlaceStrings(std::size_t t, std::uint32_t row,
                                const example::FeatureSpan& span) {
  const TensorProgram& tensor = program_->tensors()[t];
  Room room = rooms_[t][row];
  std::byte* base = RowAt(tensor.slot_values, 1, 0);
  const auto place = [&](std::span<const std::byte> value) {
    SetOffset(tensor.slot_byte_splits, room.strings++, room.values);
    if (!value.empty()) std::memcpy(base + room.values, value.data(), value.size());
    room.values += value.size();
  };
  if (span.kind == example::Kind::kNone && !tensor.ragged) {
    for (const auto& value : tensor.default_bytes) place(std::as_bytes(std::span(value)));
  } else if (span.kind != example::Kind::kNone) {
    example::ForEachBytes(span, place);
  }
}

BatchOutcome BatchBuilder::Finish() {
  BatchOutcome outcome;
  std::sort(bad_.begin(), bad_.end(),
            [](const BadRow& a, const BadRow& b) { return a.row < b.row; });
  const bool any_bad =
      std::any_of(bad_.begin(), bad_.end(), [](const BadRow& bad) { return !bad.replaced; });
  if (any_bad) CloseUp();
  std::uint32_t rows = 0;
  std::uint32_t real = 0;
  std::byte* ids = writer_.Payload(static_cast<std::uint32_t>(program_->row_ids()));
  std::byte* valid = program_->valid() < 0
                         ? nullptr
                         : writer_.Payload(static_cast<std::uint32_t>(program_->valid()));
  for (std::uint32_t row = 0; row < identity_.rows + identity_.filler; ++row) {
    if (!Stays(row)) continue;
    const bool good = row < identity_.rows && faults_[row] == FaultClass::kNone;
    if (!good) ZeroRow(rows);
    const plan::RowId id = good ? ids_[row] : plan::kFillerRow;
    std::memcpy(ids + rows * sizeof(id), &id, sizeof(id));
    if (valid != nullptr) valid[rows] = std::byte{good};
    real += good ? 1 : 0;
    ++rows;
  }
  SetShapes(rows);
  shm::BatchHeader header;
  header.generation = generation_;
  header.epoch = identity_.epoch;
  header.step = identity_.step;
  header.step_first_row = identity_.step_first;
  header.first_row = identity_.first_row;
  header.rows = rows;
  header.real_rows = real;
  header.rank = identity_.rank;
  header.world_size = identity_.world_size;
  header.next_epoch = identity_.next_epoch;
  header.next_row = identity_.next_row;
  header.skipped_rows = identity_.rows + identity_.filler - rows;
  writer_.Finish(header);
  outcome.rows = rows;
  outcome.bad = std::move(bad_);
  bad_ = {};
  return outcome;
}

// Moves the rows that stay to the front of every tensor with one place a row.
void BatchBuilder::CloseUp() {
  if (program_->bad_row() == v1::MASK) return;
  for (std::size_t t = 0; t < counts_.size(); ++t) {
    const TensorProgram& tensor = program_->tensors()[t];
    if (tensor.form == Form::kRagged || tensor.form == Form::kBytes) continue;
    const std::uint64_t bytes = RowBytes(t);
    for (const auto& [slot, row_bytes] :
         {std::pair(tensor.slot_values, bytes), std::pair(tensor.slot_lengths, std::uint64_t{8})}) {
      if (slot < 0) continue;
      std::uint32_t to = 0;
      for (std::uint32_t row = 0; row < identity_.rows + identity_.filler; ++row) {
        if (!Stays(row)) continue;
        if (to != row)
          std::memmove(RowAt(slot, row_bytes, to), RowAt(slot, row_bytes, row), row_bytes);
        ++to;
      }
    }
  }
}

std::uint64_t BatchBuilder::RowBytes(std::size_t t) const {
  const TensorProgram& tensor = program_->tensors()[t];
  if (tensor.form != Form::kPaddedLongest) return tensor.row_bytes;
  return totals_[t].longest * ItemBytes(tensor.dtype);
}

void BatchBuilder::ZeroRow(std::uint32_t place) {
  for (std::size_t t = 0; t < counts_.size(); ++t) {
    const TensorProgram& tensor = program_->tensors()[t];
    if (tensor.form == Form::kRagged || tensor.form == Form::kBytes) continue;
    std::memset(RowAt(tensor.slot_values, RowBytes(t), place), 0, RowBytes(t));
    if (tensor.slot_lengths >= 0) std::memset(RowAt(tensor.slot_lengths, 8, place), 0, 8);
  }
}

void BatchBuilder::SetShapes(std::uint32_t rows) {
  const auto set = [this](int slot, std::initializer_list<std::int64_t> sides) {
    if (slot >= 0)
      writer_.SetShape(static_cast<std::uint32_t>(slot), std::span(sides.begin(), sides.size()));
  };
  const auto batch = static_cast<std::int64_t>(rows);
  for (std::size_t t = 0; t < counts_.size(); ++t) {
    const TensorProgram& tensor = program_->tensors()[t];
    switch (tensor.form) {
      case Form::kFixed:
      case Form::kRaw:
      case Form::kImage:
      case Form::kPaddedFixed:
        writer_.SetRows(static_cast<std::uint32_t>(tensor.slot_values), rows);
        break;
      case Form::kPaddedLongest:
        set(tensor.slot_values, {batch, static_cast<std::int64_t>(totals_[t].longest)});
        break;
      case Form::kRagged:
        set(tensor.slot_values, {static_cast<std::int64_t>(totals_[t].values)});
        break;
      case Form::kBytes:
        set(tensor.slot_values, {static_cast<std::int64_t>(totals_[t].values)});
        set(tensor.slot_byte_splits, {static_cast<std::int64_t>(totals_[t].strings) + 1});
        break;
    }
    set(tensor.slot_row_splits, {batch + 1});
    set(tensor.slot_lengths, {batch});
  }
  set(program_->row_ids(), {batch});
  set(program_->valid(), {batch});
}

std::byte* BatchBuilder::RowAt(int slot, std::uint64_t row_bytes, std::uint32_t place) const {
  return writer_.Payload(static_cast<std::uint32_t>(slot)) + row_bytes * place;
}

void BatchBuilder::SetOffset(int slot, std::uint64_t place, std::uint64_t value) {
  const auto offset = static_cast<std::int64_t>(value);
  std::memcpy(writer_.Payload(static_cast<std::uint32_t>(slot)) + place * sizeof(offset), &offset,
              sizeof(offset));
}

}  // namespace stoker::pipeline
