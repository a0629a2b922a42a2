#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <string>

#include "daemon/metrics/exposition.h"
#include "daemon/metrics/metrics_server.h"
#include "tests/support/catch.h"
#include "tests/support/temp_dir.h"

namespace stoker {
namespace {

using metrics::MetricsServer;

std::string Ask(int port, const std::string& request) {
  const shm::Fd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  REQUIRE(connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0);
  // In two pieces: a request need not come at once.
  const std::size_t half = request.size() / 2;
  REQUIRE(send(fd.get(), request.data(), half, 0) == static_cast<ssize_t>(half));
  // The server may have had enough of it already.
  if (send(fd.get(), request.data() + half, request.size() - half, MSG_NOSIGNAL) < 0) return "";
  std::string answer;
  char buffer[4096];
  for (ssize_t n = 0; (n = recv(fd.get(), buffer, sizeof(buffer), 0)) > 0;) {
    answer.append(buffer, static_cast<std::size_t>(n));
  }
  return answer;
}

TEST_CASE("each value of the status is a sample with its labels", "[metrics]") {
  v1::GetDaemonResponse daemon;
  daemon.set_version("1.2");
  daemon.set_workers(7);
  daemon.set_budget_bytes(1000);
  daemon.set_budget_used_bytes(600);
  v1::StreamStatus stream;
  stream.set_name("a\"b\\c");
  stream.set_index_progress(0.5);
  stream.set_arena_bytes(4096);
  auto* counters = stream.mutable_counters();
  counters->set_rows(18446744073709551615u);
  counters->set_bytes_read(123);
  (*counters->mutable_bad_by_class())["payload-crc"] = 2;
  (*counters->mutable_bad_by_class())["feature-missing"] = 3;
  auto* lane = stream.add_lane();
  lane->set_rank(1);
  lane->set_slots_ready(3);
  lane->set_consumer_wait_seconds(0.25);
  lane->set_producer_blocked_seconds(1.5);
  lane->add_consumer();
  lane->set_error("broken");
  const std::string page = metrics::Exposition(daemon, {stream});

  const std::string name = R"({stream="a\"b\\c")";
  for (const std::string& line : {
           std::string("# TYPE stoker_rows_total counter"),
           std::string("stoker_build_info{version=\"1.2\"} 1"),
           std::string("stoker_workers 7"),
           std::string("stoker_budget_bytes 1000"),
           std::string("stoker_budget_used_bytes 600"),
           std::string("stoker_streams 1"),
           "stoker_rows_total" + name + "} 18446744073709551615",
           "stoker_read_bytes_total" + name + "} 123",
           "stoker_arena_bytes" + name + "} 4096",
           "stoker_index_progress_ratio" + name + "} 0.5",
           "stoker_bad_records_total" + name + ",class=\"feature-missing\"} 3",
           "stoker_bad_records_total" + name + ",class=\"payload-crc\"} 2",
           "stoker_slots" + name + ",rank=\"1\",state=\"ready\"} 3",
           "stoker_slots" + name + ",rank=\"1\",state=\"held\"} 0",
           "stoker_consumers" + name + ",rank=\"1\"} 1",
           "stoker_consumer_wait_seconds_total" + name + ",rank=\"1\"} 0.25",
           "stoker_producer_blocked_seconds_total" + name + ",rank=\"1\"} 1.5",
           "stoker_lane_failed" + name + ",rank=\"1\"} 1",
       }) {
    CAPTURE(line);
    CHECK(("\n" + page).find("\n" + line + "\n") != std::string::npos);
  }
}

TEST_CASE("a page is served whole, and only where it lies", "[metrics]") {
  const std::string page(300000, 'x');  // more than a socket's buffer
  int rendered = 0;
  MetricsServer server("127.0.0.1:0", [&] {
    ++rendered;
    return page;
  });
  REQUIRE(server.Start().ok());
  const std::string answer = Ask(server.port(), "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
  CHECK(answer.starts_with("HTTP/1.1 200 OK\r\n"));
  CHECK(answer.find("\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n") !=
        std::string::npos);
  CHECK(answer.find("\r\nContent-Length: 300000\r\n") != std::string::npos);
  CHECK(answer.substr(answer.find("\r\n\r\n") + 4) == page);
  CHECK(Ask(server.port(), "GET / HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 404 "));
  CHECK(Ask(server.port(), "POST /metrics HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 405 "));
  CHECK(Ask(server.port(), "GET /metrics " + std::string(20000, 'y')).empty());
  server.Stop();
  CHECK(rendered == 1);
}

TEST_CASE("a port or a path that is taken is an error", "[metrics]") {
  MetricsServer first("127.0.0.1:0", [] { return std::string(); });
  REQUIRE(first.Start().ok());
  MetricsServer second("127.0.0.1:" + std::to_string(first.port()), [] { return std::string(); });
  CHECK(second.Start().code() == Code::kAlreadyExists);

  const test::TempDir temp;
  const std::string path = temp / "m.sock";
  MetricsServer third("unix:" + path, [] { return std::string(); });
  REQUIRE(third.Start().ok());
  MetricsServer fourth("unix:" + path, [] { return std::string(); });
  CHECK(fourth.Start().code() == Code::kAlreadyExists);
  CHECK(access(path.c_str(), F_OK) == 0);
  third.Stop();
  CHECK(access(path.c_str(), F_OK) != 0);

  std::ofstream(path) << "mine";
  MetricsServer fifth("unix:" + path, [] { return std::string(); });
  CHECK(fifth.Start().code() == Code::kAlreadyExists);
  fifth.Stop();
  CHECK(access(path.c_str(), F_OK) == 0);
}

TEST_CASE("a socket that a dead daemon left is replaced", "[metrics]") {
  const test::TempDir temp;
  const std::string path = temp / "m.sock";
  {
    const shm::Fd dead(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_un name = {};
    name.sun_family = AF_UNIX;
    std::memcpy(name.sun_path, path.c_str(), path.size() + 1);
    REQUIRE(bind(dead.get(), reinterpret_cast<const sockaddr*>(&name), sizeof(name)) == 0);
  }
  MetricsServer server("unix:" + path, [] { return std::string(); });
  CHECK(server.Start().ok());
}

TEST_CASE("only this host's own addresses are served", "[metrics]") {
  for (const char* good : {"127.0.0.1:9464", "127.8.8.8:0", "[::1]:9464", "unix:/run/m.sock"}) {
    CAPTURE(good);
    CHECK(MetricsServer::CheckAddress(good).ok());
  }
  for (const char* bad :
       {"", "9464", "0.0.0.0:9464", "10.0.0.1:9464", "[::]:9464", "localhost:9464",
        "127.0.0.1:", "127.0.0.1:65536", "127.0.0.1:12x", "unix:run/m.sock", "unix:"}) {
    CAPTURE(bad);
    CHECK(MetricsServer::CheckAddress(bad).code() == Code::kInvalidArgument);
  }
}

}  // namespace
}  // namespace stoker
