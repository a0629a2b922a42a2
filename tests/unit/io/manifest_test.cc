// Which files a source's patterns stand for, and what each refusal says.
#include "daemon/io/manifest.h"

#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/catch.h"
#include "tests/support/records.h"
#include "tests/support/temp_dir.h"
#include "tests/unit/io/support.h"

namespace stoker::io {
namespace {

class Folder {
 public:
  // Writes a shard of one record at each path, making the folders on the way.
  explicit Folder(const std::vector<std::string>& names) {
    for (const auto& name : names) Write(name, test::Frame(name));
  }
  void Write(const std::string& name, const std::string& bytes) {
    std::filesystem::create_directories(std::filesystem::path(dir_ / name).parent_path());
    test::WriteFile(dir_ / name, bytes);
  }
  std::string operator/(const std::string& name) const { return dir_ / name; }

  Result<Manifest> Find(const std::string& pattern, ManifestOptions options = {}) const {
    options.files = {dir_ / pattern};
    return BuildManifest(options);
  }
  // Paths below this folder.
  std::vector<std::string> Names(const std::string& pattern) const {
    auto manifest = Find(pattern);
    INFO(manifest.status().message());
    REQUIRE(manifest.ok());
    std::vector<std::string> names;
    for (const auto& shard : manifest->shards) {
      names.push_back(shard.path.substr(dir_.path().string().size() + 1));
    }
    return names;
  }
  std::string Error(const std::string& pattern) const {
    const auto manifest = Find(pattern);
    REQUIRE_FALSE(manifest.ok());
    return manifest.status().message();
  }

 private:
  test::TempDir dir_;
};

bool Has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

using Names = std::vector<std::string>;

TEST_CASE("files are sorted bytewise, whatever the locale", "[io][manifest]") {
  const Folder folder({"b", "a", "B", "a-1", "a.1", "\xc3\xa9"});
  CHECK(folder.Names("*") == Names{"B", "a", "a-1", "a.1", "b", "\xc3\xa9"});
}

TEST_CASE("a star does not cross a folder, a backslash makes a star a star", "[io][manifest]") {
  const Folder folder({"part-0", "part-x/part-1", "part-*"});
  CHECK(folder.Names("part-?") == Names{"part-*", "part-0"});
  CHECK(folder.Names("part-\\*") == Names{"part-*"});
  CHECK(folder.Names("part-[0-9]") == Names{"part-0"});
  CHECK(folder.Names("*/part-*") == Names{"part-x/part-1"});
}

TEST_CASE("names that begin with . or _ are left out, files and folders alike", "[io][manifest]") {
  Folder folder({"d/part-0", "d/.part-0.crc", "d/_SUCCESS", "_temporary/part-1", ".trash/part-2"});
  CHECK(folder.Names("d/*") == Names{"d/part-0"});
  CHECK(folder.Find("d/*")->hidden_skipped == 2);
  CHECK(folder.Find("d/*")->notes == Names{"2 names that begin with . or _ were skipped"});
  CHECK(folder.Names("*/part-*") == Names{"d/part-0"});
  CHECK(folder.Names("d//part-*") == Names{"d//part-0"});
}

TEST_CASE("a hidden name that is spelled out is taken", "[io][manifest]") {
  const Folder folder({"d/.part-0.crc", "d/_SUCCESS", "_raw/part-1"});
  CHECK(folder.Names("d/.part-0.crc") == Names{"d/.part-0.crc"});
  CHECK(folder.Names("d/_*") == Names{"d/_SUCCESS"});
  CHECK(folder.Names("_raw/part-*") == Names{"_raw/part-1"});
  CHECK(folder.Names("\\_raw/*") == Names{"_raw/part-1"});
}

TEST_CASE("a pattern without a match is an error with pattern and folder", "[io][manifest]") {
  const Folder folder({"d/part-0"});
  const std::string error = folder.Error("d/nope-*");
  CHECK(Has(error, folder / "d/nope-*"));
  CHECK(Has(error, "matches no file in " + (folder / "d")));
}

TEST_CASE("an empty shard is a note and a count, not an error", "[io][manifest]") {
  Folder folder({"part-0", "part-1"});
  folder.Write("part-2", "");
  const auto manifest = folder.Find("part-*");
  REQUIRE(manifest.ok());
  CHECK(manifest->shards.size() == 3);
  CHECK(manifest->empty_shards == 1);
  CHECK(manifest->notes == Names{(folder / "part-2") + ": is empty"});
}

TEST_CASE("a missing shard of a set is named, with or without a suffix", "[io][manifest]") {
  Folder folder({"x-00000-of-00003", "x-00002-of-00003", "y-00000-of-00002.gz"});
  CHECK(Has(folder.Error("x-?????"
                         "-of-00003"),
            "x-00001-of-00003 is missing"));
  CHECK(Has(folder.Error("x-*-of-*"), "x-00001-of-00003 is missing"));
  CHECK(Has(folder.Error("x@3"), "x-00001-of-00003"));
  CHECK(Has(folder.Error("y-?????"
                         "-of-*.gz"),
            "y-00001-of-00002.gz is missing"));
  folder.Write("x-00001-of-00003", test::Frame("1"));
  const Names all = {"x-00000-of-00003", "x-00001-of-00003", "x-00002-of-00003"};
  CHECK(folder.Names("x@3") == all);
  CHECK(folder.Names("x-?????"
                     "-of-00003") == all);
  // Less than a set may be asked for.
  CHECK(folder.Names("x-0000[01]-of-00003") == Names{"x-00000-of-00003", "x-00001-of-00003"});
}

TEST_CASE("a path named twice is read once", "[io][manifest]") {
  const Folder folder({"a", "b"});
  ManifestOptions options;
  options.files = {folder / "*", folder / "a"};
  const auto manifest = BuildManifest(options);
  REQUIRE(manifest.ok());
  CHECK(manifest->shards.size() == 2);
}

TEST_CASE("what is no regular file is refused at once, also a pipe that nobody writes",
          "[io][manifest]") {
  const Folder folder({"d/part-0"});
  REQUIRE(mkfifo((folder / "pipe").c_str(), 0600) == 0);
  CHECK(Has(folder.Error("pipe"), "is not a regular file"));
  CHECK(Has(folder.Error("d"), "is not a regular file"));
}

TEST_CASE("a shard that may not be read names errno and our user", "[io][manifest]") {
  if (geteuid() == 0) return;  // may read everything
  const Folder folder({"part-0", "d/part-1"});
  chmod((folder / "part-0").c_str(), 0);
  const std::string error = folder.Error("part-0");
  CHECK(Has(error, folder / "part-0"));
  CHECK(Has(error, "Permission denied"));
  CHECK(Has(error, "uid " + std::to_string(geteuid())));
  chmod((folder / "d").c_str(), 0);
  CHECK(Has(folder.Error("d/part-*"), "cannot be read: Permission denied"));
  chmod((folder / "d").c_str(), 0700);
}

TEST_CASE("with roots, nothing outside them is opened by any way", "[io][manifest]") {
  Folder folder({"data/a", "data/big/b", "elsewhere/c", "database/d"});
  ManifestOptions options;
  options.roots_required = true;
  options.data_roots = {folder / "data/"};
  CHECK(folder.Find("data/a", options).ok());
  CHECK(folder.Find("data/*/b", options).ok());
  for (const std::string path :
       {"elsewhere/c", "database/d", "data/../elsewhere/c", "data/*/../../elsewhere/c"}) {
    CAPTURE(path);
    CHECK(folder.Find(path, options).status().code() == Code::kPermissionDenied);
  }
  REQUIRE(symlink((folder / "elsewhere/c").c_str(), (folder / "data/link").c_str()) == 0);
  REQUIRE(symlink((folder / "elsewhere").c_str(), (folder / "data/way").c_str()) == 0);
  REQUIRE(symlink("big/b", (folder / "data/inside").c_str()) == 0);
  CHECK(Has(folder.Find("data/link", options).status().message(), "leads out of its data_root"));
  CHECK(folder.Find("data/way/c", options).status().code() == Code::kPermissionDenied);
  CHECK(folder.Find("data/*/c", options).status().code() == Code::kPermissionDenied);
  CHECK(folder.Find("data/inside", options).ok());

  // A root inside a root may lie elsewhere; the whole machine may be one.
  options.data_roots = {folder / "data", folder / "data/way"};
  CHECK(folder.Find("data/way/c", options).ok());
  options.data_roots = {"/"};
  CHECK(folder.Find("elsewhere/c", options).ok());
  options.data_roots = {};
  CHECK(folder.Find("elsewhere/c", options).status().code() == Code::kPermissionDenied);
}

TEST_CASE("the paths' hash is that of names and sizes below the common folder", "[io][manifest]") {
  Folder folder({"a/s/x-1", "a/s/x-2", "b/c/s/x-1", "b/c/s/x-2", "d/s/x-1"});
  folder.Write("d/s/x-2", "");
  // Names alone would be equal; the payloads differ in length because the paths do.
  folder.Write("b/c/s/x-1", test::Frame("a/s/x-1"));
  folder.Write("b/c/s/x-2", test::Frame("a/s/x-2"));
  const auto hash = [&](const std::string& pattern) { return folder.Find(pattern)->PathsHash(); };
  CHECK(hash("a/s/x-*") == hash("b/c/s/x-*"));
  CHECK(hash("a/s/x-*") != hash("d/s/x-*"));
  CHECK(hash("a/s/x-1") != hash("a/s/x-2"));
}

TEST_CASE("the bytes decide the compression, and a wrong setting is named", "[io][manifest]") {
  Folder folder({"plain"});
  const std::string record = test::Frame("record");
  folder.Write("gzip", Gzip(record));
  folder.Write("zlib", Zlib(record));
  folder.Write("like-zlib", test::Frame(std::string(376, 'x')));  // begins 78 01
  folder.Write("short", "\x0a\x02");
  folder.Write("short-gzip", "\x1f\x8b");
  folder.Write("junk", "this is no TFRecord at all");
  folder.Write("empty", "");
  const auto found = [&](const std::string& name, Compression asked) {
    ManifestOptions options;
    options.compression = asked;
    return folder.Find(name, options);
  };
  for (const auto& [name, compression] :
       {std::pair("plain", Compression::kPlain), std::pair("gzip", Compression::kGzip),
        std::pair("zlib", Compression::kZlib), std::pair("like-zlib", Compression::kPlain),
        std::pair("short", Compression::kPlain), std::pair("short-gzip", Compression::kGzip)}) {
    CAPTURE(name);
    REQUIRE(found(name, Compression::kAuto).ok());
    CHECK(found(name, Compression::kAuto)->shards[0].compression == compression);
    for (const auto asked : {Compression::kPlain, Compression::kGzip, Compression::kZlib}) {
      const auto manifest = found(name, asked);
      CHECK(manifest.ok() == (asked == compression));
      if (asked == compression) continue;
      CHECK(Has(manifest.status().message(), "compression-mismatch"));
      CHECK(Has(manifest.status().message(), CompressionName(asked)));
      CHECK(Has(manifest.status().message(), CompressionName(compression)));
    }
  }
  CHECK(Has(found("junk", Compression::kAuto).status().message(), "not-a-tfrecord"));
  CHECK(Has(found("junk", Compression::kAuto).status().message(), folder / "junk"));
  CHECK(Has(found("junk", Compression::kPlain).status().message(), "not-a-tfrecord"));
  CHECK(Has(found("junk", Compression::kGzip).status().message(), "compression-mismatch"));
  for (const auto asked :
       {Compression::kAuto, Compression::kPlain, Compression::kGzip, Compression::kZlib}) {
    CHECK(found("empty", asked).ok());
  }
}

}  // namespace
}  // namespace stoker::io
