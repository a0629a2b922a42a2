// The control service over a real socket: streams, codes, health and reflection, and who may call.
#include <fcntl.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/create_channel_posix.h>
#include <grpcpp/generic/generic_stub.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <thread>

#include "daemon/control/control_server.h"
#include "daemon/main/directory.h"
#include "daemon/session/peer_check.h"
#include "daemon/session/runtime_dir.h"
#include "stoker/v1/control.grpc.pb.h"
#include "tests/support/catch.h"
#include "tests/support/records.h"
#include "tests/support/temp_dir.h"

namespace stoker {
namespace {

class Control {
 public:
  explicit Control(std::function<Status(int)> allow = [](int) { return Status(); })
      : budget_(std::uint64_t{1} << 30), pool_(1) {
    auto dir = session::RuntimeDir::Take(temp_ / "run", false);
    dir_ = std::make_unique<session::RuntimeDir>(std::move(*dir));
    stream::Environment environment;
    environment.budget = &budget_;
    environment.pool = &pool_;
    streams_ = std::make_unique<stream::StreamManager>(environment, stream::ManagerLimits{3});
    directory_ = std::make_unique<Directory>(streams_.get(), &budget_,
                                             DaemonFacts{"1.2.3", 1, "test", "", ""});
    server_ = std::make_unique<control::ControlServer>(
        std::move(*dir_->Listen("control.sock", SOCK_STREAM, 0600, "")), directory_.get(),
        std::move(allow));
    REQUIRE(server_->Start().ok());
    channel_ = grpc::CreateChannel("unix:" + (temp_ / "run/control.sock"),
                                   grpc::InsecureChannelCredentials());
    stub_ = v1::Control::NewStub(channel_);
    std::string file;
    for (int i = 0; i < 10; ++i) file += test::Frame(test::Example({{"t", test::Ints({i})}}));
    test::WriteFile(temp_ / "data", file);
  }
  ~Control() {
    streams_->Shutdown(Status(Code::kUnavailable, "the test is over"));
    server_->Stop();
  }

  std::string Spec(const std::string& name) const {
    return "name: \"" + name + "\" source { files: \"" + (temp_ / "data") +
           "\" } tensor { name: \"t\" dtype: INT64 } batch { size: 4 }";
  }
  grpc::Status Open(const std::string& text, v1::OpenStreamResponse* response) {
    grpc::ClientContext context;
    v1::OpenStreamRequest request;
    request.set_spec_text(text);
    return stub_->OpenStream(&context, request, response);
  }
  v1::Control::Stub* stub() { return stub_.get(); }
  const std::shared_ptr<grpc::Channel>& channel() const { return channel_; }

 private:
  test::TempDir temp_;
  stream::Budget budget_;
  stream::WorkerPool pool_;
  std::unique_ptr<session::RuntimeDir> dir_;
  std::unique_ptr<stream::StreamManager> streams_;
  std::unique_ptr<Directory> directory_;
  std::unique_ptr<control::ControlServer> server_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::Control::Stub> stub_;
};

TEST_CASE("streams are opened once, listed, described and closed", "[control]") {
  Control control;
  v1::OpenStreamResponse opened;
  REQUIRE(control.Open(control.Spec("a"), &opened).ok());
  CHECK(opened.created());
  CHECK(opened.stream().rows_per_epoch() == 10);
  CHECK(opened.stream().steps_per_epoch() == 3);
  REQUIRE(control.Open(control.Spec("a"), &opened).ok());
  CHECK_FALSE(opened.created());
  REQUIRE(control.Open(control.Spec("b"), &opened).ok());
  REQUIRE(control.Open(control.Spec("c"), &opened).ok());
  const auto over = control.Open(control.Spec("d"), &opened);
  CHECK(over.error_code() == grpc::RESOURCE_EXHAUSTED);
  CHECK(over.error_message().find("limits.streams") != std::string::npos);

  std::vector<std::string> names;
  v1::ListStreamsRequest list;
  list.set_page_size(2);
  for (int page = 0; page < 2; ++page) {
    grpc::ClientContext context;
    v1::ListStreamsResponse response;
    REQUIRE(control.stub()->ListStreams(&context, list, &response).ok());
    for (const auto& stream : response.stream()) names.push_back(stream.name());
    CHECK(response.next_page_token().empty() == (page == 1));
    list.set_page_token(response.next_page_token());
  }
  CHECK(names == std::vector<std::string>{"a", "b", "c"});

  v1::CloseStreamRequest close;
  close.set_name("a");
  v1::CloseStreamResponse closed;
  {
    grpc::ClientContext context;
    REQUIRE(control.stub()->CloseStream(&context, close, &closed).ok());
  }
  grpc::ClientContext context;
  CHECK(control.stub()->CloseStream(&context, close, &closed).error_code() == grpc::NOT_FOUND);
}

TEST_CASE("errors keep their canonical codes and say what to do", "[control]") {
  Control control;
  v1::OpenStreamResponse opened;
  const auto wrong = control.Open("nme: \"a\"", &opened);
  CHECK(wrong.error_code() == grpc::INVALID_ARGUMENT);
  CHECK(wrong.error_message().find("spec_text:1:") != std::string::npos);
  auto relative = control.Spec("a");
  relative.replace(relative.find("files: \"/"), 9, "files: \"");
  CHECK(control.Open(relative, &opened).error_message().find("absolute path") != std::string::npos);
  CHECK(control.Open("", &opened).error_code() == grpc::INVALID_ARGUMENT);
}

TEST_CASE("health answers SERVING and reflection names the service", "[control]") {
  Control control;
  // The standard health service, called by its name: an empty service name asks for the whole
  // server, and the answer's field 1 is the state, of which 1 is SERVING.
  grpc::ClientContext context;
  grpc::CompletionQueue queue;
  grpc::GenericStub generic(control.channel());
  const std::string whole_server = test::Field(1, "");
  const grpc::Slice whole_server_slice(whole_server);
  const grpc::ByteBuffer check(&whole_server_slice, 1);
  auto call = generic.PrepareUnaryCall(&context, "/grpc.health.v1.Health/Check", check, &queue);
  call->StartCall();
  grpc::ByteBuffer answer;
  grpc::Status status;
  call->Finish(&answer, &status, nullptr);
  void* tag = nullptr;
  bool good = false;
  REQUIRE(queue.Next(&tag, &good));
  REQUIRE(status.ok());
  std::vector<grpc::Slice> slices;
  REQUIRE(answer.Dump(&slices).ok());
  std::string bytes;
  for (const auto& slice : slices)
    bytes.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  CHECK(bytes == "\x08\x01");

  grpc::ClientContext reflection;
  auto stream = generic.PrepareCall(
      &reflection, "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", &queue);
  const auto wait = [&] {
    REQUIRE(queue.Next(&tag, &good));
    REQUIRE(good);
  };
  stream->StartCall(nullptr);
  wait();
  // ServerReflectionRequest.list_services, field 7, any text.
  const std::string request = test::Field(7, "*");
  const grpc::Slice slice(request);
  stream->Write(grpc::ByteBuffer(&slice, 1), nullptr);
  wait();
  grpc::ByteBuffer services;
  stream->Read(&services, nullptr);
  wait();
  std::string text;
  slices.clear();
  REQUIRE(services.Dump(&slices).ok());
  for (const auto& part : slices)
    text.append(reinterpret_cast<const char*>(part.begin()), part.size());
  CHECK(text.find("stoker.v1.Control") != std::string::npos);
  CHECK(text.find("grpc.health.v1.Health") != std::string::npos);
  reflection.TryCancel();
  stream->Finish(&status, nullptr);
  (void)queue.Next(&tag, &good);
}

TEST_CASE("a peer that may not call is cut off", "[control]") {
  Control control([](int) { return Status(Code::kPermissionDenied, "not you"); });
  v1::OpenStreamResponse opened;
  CHECK(control.Open(control.Spec("a"), &opened).error_code() == grpc::UNAVAILABLE);
}

// Remembers in whose name it was asked.
class Register final : public control::StreamDirectory {
 public:
  Result<v1::StreamStatus> OpenStream(const v1::StreamSpec& spec, uid_t uid,
                                      bool* created) override {
    *created = true;
    v1::StreamStatus status;
    status.set_name(spec.name() + " by " + std::to_string(uid));
    return status;
  }
  Status CloseStream(const std::string&) override { return Status(); }
  std::vector<v1::StreamStatus> ListStreams() override { return {}; }
  Result<v1::GetStreamResponse> GetStream(const std::string& name) override {
    return Status(Code::kNotFound, name);
  }
  Result<v1::ExplainResponse> Explain(const v1::StreamSpec&, uid_t uid, std::uint32_t) override {
    v1::ExplainResponse response;
    response.add_note(std::to_string(uid));
    return response;
  }
  Result<v1::AuditResponse> Audit(const std::string& name) override {
    return Status(Code::kNotFound, name);
  }
  Result<v1::WhichResponse> Which(const v1::WhichRequest& request) override {
    return Status(Code::kNotFound, request.name());
  }
  v1::GetDaemonResponse Daemon() override { return {}; }
};

// A socket without a place in the file system: any user reaches it.
sockaddr_un AbstractName() {
  sockaddr_un name = {};
  name.sun_family = AF_UNIX;
  const std::string text = "stoker-control-test-" + std::to_string(getpid());
  std::copy(text.begin(), text.end(), name.sun_path + 1);
  return name;
}

shm::Fd ConnectAs(uid_t uid) {
  shm::Fd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  bool connected = false;
  std::thread other([&fd, &connected, uid] {
    // The system call, unlike its wrapper, changes this thread alone.
    if (uid != geteuid() && syscall(SYS_setresuid, -1, uid, -1) != 0) return;
    const sockaddr_un name = AbstractName();
    connected = connect(fd.get(), reinterpret_cast<const sockaddr*>(&name), sizeof(name)) == 0;
  });
  other.join();
  REQUIRE(connected);
  REQUIRE(fcntl(fd.get(), F_SETFL, O_NONBLOCK) == 0);
  return fd;
}

TEST_CASE("a call is made in the name of the user who connected", "[control]") {
  constexpr uid_t kOther = 65534;
  Register directory;
  shm::Fd listener(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const sockaddr_un name = AbstractName();
  REQUIRE(bind(listener.get(), reinterpret_cast<const sockaddr*>(&name), sizeof(name)) == 0);
  REQUIRE(listen(listener.get(), 8) == 0);
  control::ControlServer server(std::move(listener), &directory, [](int) { return Status(); });
  REQUIRE(server.Start().ok());

  const auto call = [](v1::Control::Stub* stub, uid_t uid) {
    v1::OpenStreamRequest request;
    request.set_spec_text("name: \"s\"");
    v1::OpenStreamResponse response;
    grpc::ClientContext context;
    REQUIRE(stub->OpenStream(&context, request, &response).ok());
    CHECK(response.stream().name() == "s by " + std::to_string(uid));
    v1::ExplainRequest explain;
    explain.set_spec_text("name: \"s\"");
    v1::ExplainResponse explained;
    grpc::ClientContext second;
    REQUIRE(stub->Explain(&second, explain, &explained).ok());
    CHECK(explained.note(0) == std::to_string(uid));
  };
  // Both users hold a connection, and further ones come and go beside them on numbers that the
  // daemon's side uses again and again. Only root may become another user.
  std::vector<uid_t> users = {geteuid()};
  if (geteuid() == 0) users.push_back(kOther);
  std::vector<std::unique_ptr<v1::Control::Stub>> held;
  for (const uid_t uid : users) {
    held.push_back(
        v1::Control::NewStub(grpc::CreateInsecureChannelFromFd("held", ConnectAs(uid).Release())));
  }
  for (int round = 0; round < 20; ++round) {
    CAPTURE(round);
    for (std::size_t i = 0; i < users.size(); ++i) {
      const auto stub = v1::Control::NewStub(
          grpc::CreateInsecureChannelFromFd("once", ConnectAs(users[i]).Release()));
      call(stub.get(), users[i]);
      call(held[i].get(), users[i]);
    }
  }
  server.Stop();
}

TEST_CASE("modes, groups and users of the sockets are judged before they are used", "[control]") {
  v1::Access access;
  access.set_socket_mode(666);
  CHECK_FALSE(session::PeerCheck::Make(access).ok());
  access.set_socket_mode(690);
  CHECK_FALSE(session::PeerCheck::Make(access).ok());
  access.set_socket_mode(660);
  CHECK(session::PeerCheck::Make(access)->socket_mode() == 0660);
  access.set_group("no-such-group-here");
  CHECK_FALSE(session::PeerCheck::Make(access).ok());
  v1::Access users;
  users.add_allow_user("no-such-user-here");
  CHECK_FALSE(session::PeerCheck::Make(users).ok());
}

}  // namespace
}  // namespace stoker
