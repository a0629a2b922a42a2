// Shared memory that no holder can take from another.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "shm/fd_passing.h"
#include "shm/memfd.h"
#include "tests/support/catch.h"

namespace stoker::shm {
namespace {

TEST_CASE("a memfd can be neither shrunk nor grown nor sealed further, and is ours alone",
          "[shm]") {
  const Fd fd = MakeMemfd("test", 8192, Seals::kFinal);
  REQUIRE(fd.valid());
  CHECK(ftruncate(fd.get(), 4096) != 0);
  CHECK(errno == EPERM);
  CHECK(ftruncate(fd.get(), 16384) != 0);
  CHECK(fcntl(fd.get(), F_ADD_SEALS, F_SEAL_WRITE) != 0);
  struct stat status;
  REQUIRE(fstat(fd.get(), &status) == 0);
  CHECK((status.st_mode & 0777) == 0600);
  CHECK((fcntl(fd.get(), F_GETFD) & FD_CLOEXEC) != 0);
}

TEST_CASE("a shared lane's descriptor maps read-only and cannot be made to write", "[shm]") {
  const Fd fd = MakeMemfd("test", 4096, Seals::kReadOnlyLater);
  const Mapping daemon = Mapping::Map(fd.get(), 4096, true);
  REQUIRE(daemon.valid());
  const Fd shared = ReopenReadOnly(fd.get());
  REQUIRE(shared.valid());
  CHECK_FALSE(Mapping::Map(shared.get(), 4096, true).valid());
  const Mapping client = Mapping::Map(shared.get(), 4096, false);
  REQUIRE(client.valid());
  CHECK(mprotect(client.data(), 4096, PROT_READ | PROT_WRITE) != 0);
  CHECK(write(shared.get(), "x", 1) < 0);
  // Not even through a descriptor that was made for writing.
  CHECK_FALSE(Mapping::Map(fd.get(), 4096, true).valid());
  CHECK(fcntl(fd.get(), F_ADD_SEALS, F_SEAL_WRITE) != 0);
  // The daemon's own mapping goes on, and the client sees it.
  daemon.data()[7] = std::byte{42};
  CHECK(client.data()[7] == std::byte{42});
}

TEST_CASE("descriptors arrive as many as were sent, and never leak", "[shm]") {
  int pair[2];
  REQUIRE(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) == 0);
  const Fd a(pair[0]);
  const Fd b(pair[1]);
  const auto count = [] {
    int n = 0;
    for (int fd = 0; fd < 1024; ++fd) n += fcntl(fd, F_GETFD) >= 0 ? 1 : 0;
    return n;
  };
  const int before = count();
  const int fds[5] = {a.get(), a.get(), a.get(), a.get(), a.get()};
  for (const std::size_t n : {0u, 1u, 5u}) {
    REQUIRE(SendMessage(a.get(), reinterpret_cast<const std::byte*>("hello"), 5, fds, n));
    std::byte buffer[16];
    Received received;
    REQUIRE(ReceiveMessage(b.get(), buffer, sizeof(buffer), &received) == ReceiveResult::kOk);
    CHECK(received.bytes == 5);
    CHECK(received.fd_count == n);
    for (std::size_t i = 0; i < n; ++i)
      CHECK((fcntl(received.fds[i].get(), F_GETFD) & FD_CLOEXEC) != 0);
  }
  // A message that is longer than the buffer is broken, and its descriptors are closed.
  REQUIRE(SendMessage(a.get(), reinterpret_cast<const std::byte*>("hello world"), 11, fds, 3));
  std::byte small[4];
  Received received;
  CHECK(ReceiveMessage(b.get(), small, sizeof(small), &received) == ReceiveResult::kBroken);
  CHECK(received.fd_count == 0);
  CHECK(ReceiveMessage(b.get(), small, sizeof(small), &received) == ReceiveResult::kAgain);
  CHECK(count() == before);
}

}  // namespace
}  // namespace stoker::shm
