// What several trainers in threads of their own see of one daemon: their part, in order, once.
#include <atomic>
#include <cstring>
#include <set>
#include <thread>

#include "tests/support/catch.h"
#include "tests/support/local_daemon.h"
#include "tests/support/records.h"

namespace stoker {
namespace {

constexpr std::int64_t kPatience = 60'000'000'000;

std::string WriteIds(const std::string& folder, int shards, int rows) {
  std::filesystem::create_directories(folder);
  std::int64_t number = 0;
  for (int s = 0; s < shards; ++s) {
    std::string file;
    for (int i = 0; i < rows; ++i) {
      std::vector<std::int64_t> tokens(static_cast<std::size_t>(number % 7), number);
      file += test::Frame(test::Example({{"id", test::Ints({number})},
                                         {"tokens", test::Ints(tokens)},
                                         {"x", test::Floats({0.5f})}}));
      ++number;
    }
    test::WriteFile(folder + "/part-" + std::to_string(s), file);
  }
  return folder + "/part-*";
}

std::string Spec(const std::string& files, const std::string& more) {
  return "name: \"ids\" source { files: \"" + files +
         "\" } order { shuffle: GLOBAL seed: 5 repeat: 2 } tensor { name: \"id\" dtype: INT64 } "
         "tensor { name: \"tokens\" dtype: INT64 ragged {} } batch { size: 16 } " +
         more;
}

// Takes everything; checks the ragged values against the ids. Holds `hold` batches behind.
std::vector<std::int64_t> TakeAll(stoker_stream* stream, std::size_t hold) {
  std::vector<std::int64_t> ids;
  std::vector<stoker_batch*> held;
  while (true) {
    stoker_batch* batch = nullptr;
    const stoker_code code = stoker_next(stream, kPatience, &batch);
    if (code == STOKER_OUT_OF_RANGE) {
      stoker_stream_info info = {};
      info.struct_bytes = sizeof(info);
      stoker_stream_get_info(stream, &info);
      if (info.ended != 0) break;
      continue;
    }
    if (code != STOKER_OK) {
      ids.push_back(-code);
      break;
    }
    stoker_tensor id;
    stoker_tensor tokens;
    stoker_tensor splits;
    stoker_batch_find(batch, "id", &id);
    stoker_batch_find(batch, "tokens", &tokens);
    stoker_batch_find(batch, "tokens/row_splits", &splits);
    const auto* numbers = static_cast<const std::int64_t*>(id.data);
    const auto* ends = static_cast<const std::int64_t*>(splits.data);
    for (std::int64_t i = 0; i < id.shape[0]; ++i) {
      ids.push_back(numbers[i]);
      if (ends[i + 1] - ends[i] != numbers[i] % 7) ids.push_back(-1000);
      for (std::int64_t v = ends[i]; v < ends[i + 1]; ++v) {
        if (static_cast<const std::int64_t*>(tokens.data)[v] != numbers[i]) ids.push_back(-2000);
      }
    }
    held.push_back(batch);
    if (held.size() > hold) {
      stoker_batch_release(held.front());
      held.erase(held.begin());
    }
  }
  for (auto* batch : held) stoker_batch_release(batch);
  return ids;
}

TEST_CASE("ranks in threads get each row once an epoch, all of them", "[stream]") {
  test::LocalDaemon daemon(4);
  const std::string spec = Spec(WriteIds(daemon.temp() / "data", 5, 200), "");
  std::vector<std::vector<std::int64_t>> seen(4);
  std::vector<std::thread> trainers;
  // All ranks attach before any can finish: a rank that ends alone would begin a new job.
  std::vector<stoker_stream*> streams;
  for (std::uint32_t rank = 0; rank < 4; ++rank) {
    streams.push_back(daemon.Attach(spec, rank, 4));
    INFO(stoker_last_error());
    REQUIRE(streams.back() != nullptr);
  }
  for (std::size_t rank = 0; rank < 4; ++rank) {
    trainers.emplace_back([&, rank] { seen[rank] = TakeAll(streams[rank], rank); });
  }
  for (auto& trainer : trainers) trainer.join();
  for (auto* stream : streams) stoker_stream_close(stream);
  std::multiset<std::int64_t> all;
  for (const auto& ids : seen) all.insert(ids.begin(), ids.end());
  CHECK(all.size() == 2000);
  for (std::int64_t i = 0; i < 1000; ++i) REQUIRE(all.count(i) == 2);
}

TEST_CASE("broadcast consumers of different speed see the same batches", "[stream]") {
  test::LocalDaemon daemon(3);
  const std::string spec = Spec(WriteIds(daemon.temp() / "data", 3, 150),
                                "delivery { mode: BROADCAST expect: 3 slots: 3 }");
  std::vector<std::vector<std::int64_t>> seen(3);
  std::vector<std::thread> trainers;
  for (std::size_t i = 0; i < 3; ++i) {
    trainers.emplace_back([&, i] {
      stoker_stream* stream = daemon.Attach(spec);
      if (stream == nullptr) return;
      seen[i] = TakeAll(stream, i);
      stoker_stream_close(stream);
    });
  }
  for (auto& trainer : trainers) trainer.join();
  CHECK(seen[0].size() == 900);
  CHECK(seen[0] == seen[1]);
  CHECK(seen[0] == seen[2]);
}

TEST_CASE("a stream closed under its trainers ends them with a word", "[stream]") {
  test::LocalDaemon daemon(2);
  std::string spec = Spec(WriteIds(daemon.temp() / "data", 2, 100), "");
  spec.replace(spec.find("repeat: 2"), 9, "");
  std::vector<std::thread> trainers;
  std::atomic<int> started{0};
  std::atomic<int> told{0};
  for (std::uint32_t rank = 0; rank < 3; ++rank) {
    trainers.emplace_back([&, rank] {
      stoker_stream* stream = daemon.Attach(spec, rank, 3);
      if (stream == nullptr) return;
      bool counted = false;
      while (true) {
        stoker_batch* batch = nullptr;
        const stoker_code code = stoker_next(stream, kPatience, &batch);
        if (code == STOKER_OK) stoker_batch_release(batch);
        if (!std::exchange(counted, true)) ++started;
        if (code == STOKER_NOT_FOUND) ++told;
        if (code != STOKER_OK && code != STOKER_OUT_OF_RANGE) break;
      }
      stoker_stream_close(stream);
    });
  }
  while (started < 3) std::this_thread::yield();
  REQUIRE(daemon.streams().Close("ids").ok());
  for (auto& trainer : trainers) trainer.join();
  CHECK(told == 3);
}

TEST_CASE("memory comes back when streams go", "[stream]") {
  test::LocalDaemon daemon(2);
  const std::string spec = Spec(WriteIds(daemon.temp() / "data", 2, 100), "");
  for (int i = 0; i < 20; ++i) {
    stoker_stream* stream = daemon.Attach(spec);
    REQUIRE(stream != nullptr);
    stoker_batch* batch = nullptr;
    REQUIRE(stoker_next(stream, kPatience, &batch) == STOKER_OK);
    stoker_batch_release(batch);
    stoker_stream_close(stream);
  }
  REQUIRE(daemon.streams().Close("ids").ok());
  // A session's end is seen by the watching thread, soon.
  while (daemon.budget().used() != 0) std::this_thread::yield();
}

}  // namespace
}  // namespace stoker
