// Front to back: what zlib wrote comes out whole however it is asked for; a file that ends
// anywhere says how, after the records before it; and what the writer writes reads back.
#include <fcntl.h>
#include <unistd.h>

#include <random>

#include "daemon/io/byte_stream.h"
#include "daemon/io/record_scanner.h"
#include "daemon/io/record_writer.h"
#include "tests/support/catch.h"
#include "tests/support/records.h"
#include "tests/support/temp_dir.h"
#include "tests/unit/io/support.h"

namespace stoker::io {
namespace {

struct All {
  std::string bytes;
  FaultClass fault;
};

// Everything, asked for in pieces of the sizes that `piece` answers.
template <typename Piece>
All Drain(const std::string& file, Compression compression, Piece piece) {
  const MemorySource source(file);
  const auto stream = OpenStream(source, file.size(), compression);
  All all;
  while (true) {
    std::string part(piece(), '\0');
    const std::size_t n = stream->Read(std::as_writable_bytes(std::span(part.data(), part.size())));
    all.bytes.append(part, 0, n);
    if (n < part.size()) break;
  }
  all.fault = stream->fault();
  return all;
}

TEST_CASE("compressed bytes come out whole, whatever the sizes of the reads", "[io][stream]") {
  std::mt19937_64 draw(5);
  for (int round = 0; round < 1500; ++round) {
    const bool gzip = draw() % 2 == 0;
    const std::size_t size = round % 50 == 0 ? draw() % 600000 : draw() % 700;
    const auto alphabet = 1 + draw() % 256;
    std::string want;
    std::string file;
    for (std::uint64_t members = gzip ? 1 + draw() % 3 : 1; members > 0; --members) {
      std::string part(size, '\0');
      for (char& c : part) c = static_cast<char>(draw() % alphabet);
      file += Deflate(part, gzip ? kGzipWindow : kZlibWindow, static_cast<int>(draw() % 10),
                      static_cast<int>(draw() % 5));
      want += part;
    }
    const std::uint64_t most = size > 700 ? 40000 : 1 + draw() % 40;
    const All all = Drain(file, gzip ? Compression::kGzip : Compression::kZlib,
                          [&] { return static_cast<std::size_t>(1 + draw() % most); });
    CAPTURE(round, gzip, size);
    REQUIRE(all.fault == FaultClass::kNone);
    REQUIRE(all.bytes == want);
  }
}

TEST_CASE("compressed data that is cut or followed by junk says so after all its bytes",
          "[io][stream]") {
  std::string want;
  for (int i = 0; i < 60; ++i) want += "line " + std::to_string(i * i) + "\n";
  for (const bool gzip : {true, false}) {
    const auto compression = gzip ? Compression::kGzip : Compression::kZlib;
    const std::string file = gzip ? Gzip(want) : Zlib(want);
    for (const std::size_t piece : {std::size_t{1}, std::size_t{12}, std::size_t{1} << 16}) {
      const auto pieces = [piece] { return piece; };
      for (std::size_t cut = 1; cut < file.size(); ++cut) {
        const All all = Drain(file.substr(0, cut), compression, pieces);
        CAPTURE(gzip, piece, cut);
        REQUIRE(all.fault == FaultClass::kCompressedTruncated);
        REQUIRE(all.bytes == want.substr(0, all.bytes.size()));
        if (cut >= file.size() - 4) REQUIRE(all.bytes == want);  // only its trailer is cut
      }
      for (const std::string& junk : {std::string("junk"), std::string(1, '\0')}) {
        const All all = Drain(file + junk, compression, pieces);
        CAPTURE(gzip, piece, junk);
        REQUIRE(all.fault == FaultClass::kCompressedCorrupt);
        REQUIRE(all.bytes == want);
      }
      std::string damaged = file;
      damaged[file.size() - 5 + (gzip ? 0 : 1)] ^= 1;  // in the checksum
      const All all = Drain(damaged, compression, pieces);
      REQUIRE(all.fault == FaultClass::kCompressedCorrupt);
      REQUIRE(all.bytes == want);
    }
  }
}

struct Scanned {
  std::uint64_t records = 0;
  FaultClass end = FaultClass::kNone;
};

Scanned Scan(const std::string& file, Compression compression) {
  const MemorySource source(file);
  const auto stream = OpenStream(source, file.size(), compression);
  RecordScanner::Options options;
  if (compression == Compression::kPlain) options.stream_bytes = file.size();
  RecordScanner scanner(stream.get(), options);
  RecordScanner::Record record;
  while (scanner.Next(&record)) REQUIRE(record.fault == FaultClass::kNone);
  return {scanner.records(), scanner.damage() ? scanner.damage()->fault : FaultClass::kNone};
}

TEST_CASE("a file cut at any length gives its whole records and then the right class",
          "[io][scan]") {
  const std::string file = test::Frame(std::string(10, 'a')) + test::Frame(std::string(20, 'b')) +
                           test::Frame(std::string(30, 'c'));
  REQUIRE(file.size() == 108);
  std::map<FaultClass, int> ends;
  for (std::size_t cut = 0; cut <= 108; ++cut) {
    const Scanned plain = Scan(file.substr(0, cut), Compression::kPlain);
    CAPTURE(cut);
    REQUIRE(plain.records == (cut < 26 ? 0 : cut < 62 ? 1 : cut < 108 ? 2 : 3));
    ++ends[plain.end];
    // The same bytes inside whole compressed data end the same way.
    for (const auto& [packed, compression] :
         {std::pair(Gzip(file.substr(0, cut)), Compression::kGzip),
          std::pair(Zlib(file.substr(0, cut)), Compression::kZlib)}) {
      const Scanned inflated = Scan(packed, compression);
      REQUIRE(inflated.records == plain.records);
      REQUIRE(inflated.end == plain.end);
    }
  }
  CHECK(ends[FaultClass::kNone] == 4);
  CHECK(ends[FaultClass::kTruncatedHeader] == 33);
  CHECK(ends[FaultClass::kTruncatedPayload] == 72);
}

TEST_CASE("gzip members are read through, even a thousand, empty, or cutting a header",
          "[io][scan]") {
  std::string many;
  for (int i = 0; i < 1000; ++i) many += Gzip(test::Frame(std::to_string(i)));
  CHECK(Scan(many, Compression::kGzip).records == 1000);
  const std::string file = test::Frame("one") + test::Frame("two") + test::Frame("three");
  for (std::size_t at = 0; at <= file.size(); ++at) {
    CAPTURE(at);
    const Scanned scanned =
        Scan(Gzip(file.substr(0, at)) + Gzip(file.substr(at)), Compression::kGzip);
    REQUIRE(scanned.records == 3);
    REQUIRE(scanned.end == FaultClass::kNone);
  }
}

std::span<const std::byte> Bytes(const std::string& text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

TEST_CASE("what the writer writes is framed as the page says, and reads back inflated",
          "[io][write]") {
  test::TempDir dir;
  const std::vector<std::string> payloads = {"", "x", std::string(3000000, 'y'), "end"};
  std::string want;
  for (const auto& payload : payloads) want += test::Frame(payload);
  for (const auto compression : {Compression::kPlain, Compression::kGzip, Compression::kZlib}) {
    auto writer = RecordWriter::Create(dir / "f", compression);
    REQUIRE(writer.ok());
    for (const auto& payload : payloads) REQUIRE(writer->Append(Bytes(payload)).ok());
    REQUIRE(writer->Close().ok());
    std::ifstream in(dir / "f", std::ios::binary);
    const std::string file((std::istreambuf_iterator<char>(in)), {});
    const All all = Drain(file, compression, [] { return std::size_t{1} << 20; });
    CHECK(all.fault == FaultClass::kNone);
    CHECK(all.bytes == want);
  }
}

TEST_CASE("a writer whose disk was full never says later that its file is whole", "[io][write]") {
  auto writer = RecordWriter::Create("/dev/full", Compression::kPlain);
  REQUIRE(writer.ok());
  CHECK(writer->Append(Bytes(std::string(2000000, 'x'))).code() == Code::kResourceExhausted);
  CHECK(writer->Append(Bytes("y")).code() == Code::kResourceExhausted);
  CHECK(writer->Close().message().find("No space left") != std::string::npos);
}

}  // namespace
}  // namespace stoker::io
