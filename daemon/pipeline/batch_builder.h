// BatchBuilder: one batch, from row ids to a finished slot, by any number of workers.
//
// A batch is cut into runs of rows. A worker takes a run, reads its records, parses them and
// writes every fixed-size value at its final address. Where a tensor's room depends on other rows
// (ragged, padded to the longest, byte strings) the run keeps its records; when all runs are
// counted one worker lays the room out, and the runs place those values in a second pass. Last,
// one worker closes up or masks bad rows and writes the header. What each step writes depends on
// row ids alone, never on who runs it or when.
//
//   Begin ─▶ RunRows (each run, in parallel) ─▶ EndOfRows ─▶ [PlaceRun (each run)] ─▶ Finish
//
// Ownership: one builder a slot, reused for every batch of that slot; nothing is allocated in the
//   steady state. Borrows the slot's memory between Begin() and Finish().
// Thread-safety: RunRows() and PlaceRun() from any thread, each run once; the others from one
//   thread, after all calls of the step before (the caller's lock orders them).
// Errors: bad rows are values in Outcome; nothing here fails.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "daemon/example/example_parser.h"
#include "daemon/example/sequence_parser.h"
#include "daemon/image/image_program.h"
#include "daemon/pipeline/dataset.h"
#include "daemon/pipeline/row_program.h"
#include "daemon/plan/epoch_plan.h"
#include "shm/batch_writer.h"

namespace stoker::pipeline {

// The rows of an epoch: which record each is, and where it is read. Under `refresh: EPOCH` each
// epoch has its own.
struct EpochData {
  std::shared_ptr<const Dataset> dataset;
  std::shared_ptr<const plan::EpochPlan> plan;
};

// Counted by workers, added to the stream's counters a run at a time.
struct BuildCounters {
  std::uint64_t rows = 0;
  std::uint64_t defaulted = 0;
  std::uint64_t replaced = 0;
  example::ParseCounters parse;
  image::ImageCounters image;
};

// One worker's reusable state for one stream.
class RowWorker {
 public:
  explicit RowWorker(std::shared_ptr<const RowProgram> program);

  // What was counted since the last call.
  BuildCounters TakeCounters() { return std::exchange(counters_, BuildCounters{}); }

 private:
  friend class BatchBuilder;

  std::shared_ptr<const RowProgram> program_;
  example::ExampleParser parser_;
  example::SequenceParser sequence_parser_;
  std::vector<example::FeatureSpan> spans_;
  io::RecordBlock block_;
  ValueScratch scratch_;
  std::vector<std::byte> swapped_;
  image::ImageWorker image_;
  std::string detail_;
  BuildCounters counters_;
};

struct BatchIdentity {
  std::uint64_t epoch = 0;
  std::uint64_t step = 0;        // in its epoch
  std::uint64_t step_first = 0;  // global first row of the step
  std::uint64_t first_row = 0;   // global first row of this rank's part
  std::uint32_t rows = 0;        // real rows of this rank
  std::uint32_t filler = 0;      // rows of zeros behind them
  std::uint32_t rank = 0;
  std::uint32_t world_size = 1;
  std::uint64_t next_epoch = 0;  // position after the step
  std::uint64_t next_row = 0;
};

// A row that could not be used as it is.
struct BadRow {
  std::uint64_t row = 0;  // global row
  plan::RowId id = 0;
  std::uint64_t offset = 0;
  FaultClass fault = FaultClass::kNone;
  std::string detail;
  bool replaced = false;  // a spare record stands in its place
  bool hopeless = false;  // REPLACE found no good spare in 16
};

struct BatchOutcome {
  std::uint32_t rows = 0;   // as delivered: without dropped rows, with filler
  std::vector<BadRow> bad;  // in row order
};

class BatchBuilder {
 public:
  // `rows_per_run` is how many rows make about 64 KiB of input; `seed` keys the random ops.
  BatchBuilder(std::shared_ptr<const RowProgram> program, std::uint64_t seed,
               std::uint32_t rows_per_run);

  // `generation` is the slot's, as delivery words name it.
  void Begin(std::shared_ptr<const EpochData> data, std::byte* slot, std::uint32_t generation,
             const BatchIdentity& identity);
  std::uint32_t runs() const { return run_count_; }
  void RunRows(std::uint32_t run, RowWorker* worker);
  // Returns whether PlaceRun() must follow for every run.
  bool EndOfRows();
  void PlaceRun(std::uint32_t run, RowWorker* worker);
  BatchOutcome Finish();

  const BatchIdentity& identity() const { return identity_; }

 private:
  // Where a row's values begin in a counted tensor, in values (kBytes: bytes) and strings.
  struct Room {
    std::uint64_t values = 0;
    std::uint64_t strings = 0;
    std::uint64_t longest = 0;
  };
  // What a run keeps between the two passes.
  struct Run {
    std::uint32_t begin = 0;
    std::uint32_t end = 0;
    io::RecordBlock block;
    std::vector<io::RecordBlock> spares;      // of replaced rows
    std::vector<example::FeatureSpan> spans;  // rows x features
  };

  std::uint32_t AskAhead(std::uint32_t begin, std::uint32_t end,
                         const io::RecordBlock& block) const;
  void ReadRun(const Run& run, io::RecordBlock* block) const;
  FaultClass DoRow(std::uint32_t place, plan::RowId id, const io::Record& record,
                   std::span<example::FeatureSpan> spans, RowWorker* worker);
  FaultClass DoTensor(const TensorProgram& tensor, std::uint32_t place, plan::RowId id,
                      const io::Record& record, const example::FeatureSpan& span,
                      RowWorker* worker);
  FaultClass PlaceFixed(const TensorProgram& tensor, const example::FeatureSpan& span,
                        std::byte* out, RowWorker* worker);
  FaultClass PlaceRaw(const TensorProgram& tensor, std::span<const std::byte> value, std::byte* out,
                      RowWorker* worker);
  FaultClass PlacePadded(const TensorProgram& tensor, std::uint32_t place,
                         const example::FeatureSpan& span, RowWorker* worker);
  plan::RowId Replace(std::uint32_t place, std::span<example::FeatureSpan> spans, Run* run,
                      RowWorker* worker);
  void MarkBad(std::uint32_t place, FaultClass fault, std::uint64_t offset, std::string detail,
               bool replaced, bool hopeless);
  void ClearCounts(std::uint32_t place);
  bool Stays(std::uint32_t row) const;

  // The counted forms.
  void DropOverflows();
  std::uint64_t Measure(std::size_t tensor, std::uint32_t row) const;
  void LayOut(std::size_t tensor);
  void PlaceCounted(std::size_t tensor, std::uint32_t row, const example::FeatureSpan& span,
                    RowWorker* worker);
  void PlaceStrings(std::size_t tensor, std::uint32_t row, const example::FeatureSpan& span);

  void CloseUp();
  void ZeroRow(std::uint32_t place);
  void SetShapes(std::uint32_t rows);
  std::uint64_t RowBytes(std::size_t tensor) const;
  std::byte* RowAt(int slot, std::uint64_t row_bytes, std::uint32_t place) const;
  void SetOffset(int slot, std::uint64_t place, std::uint64_t value);

  const std::shared_ptr<const RowProgram> program_;
  const std::uint64_t seed_;
  const std::uint32_t rows_per_run_;

  std::shared_ptr<const EpochData> data_;
  std::uint32_t generation_ = 0;
  BatchIdentity identity_;
  shm::BatchWriter writer_;
  std::uint32_t run_count_ = 0;
  std::vector<Run> runs_;
  std::vector<plan::RowId> ids_;
  std::vector<FaultClass> faults_;                  // a row's own; kNone for a good row
  std::vector<std::vector<std::uint64_t>> counts_;  // tensor x row: values (kBytes: strings)
  std::vector<std::vector<std::uint64_t>> sizes_;   // tensor x row: bytes of kBytes
  std::vector<std::vector<Room>> rooms_;            // tensor x row
  std::vector<Room> totals_;                        // tensor
  std::vector<std::uint64_t> used_;                 // tensor: while overflows are looked for
  std::mutex bad_mutex_;
  std::vector<BadRow> bad_;
};

}  // namespace stoker::pipeline
