// What gRPC's own clients see of the front, where no client of the protocol looks.
#include "grpc_requests.hpp"
#include "test_service.hpp"

#include <apps/serve/fronts.hpp>
#include <apps/serve/grpc/channel.hpp>
#include <support/results.hpp>
#include <support/temporary_folder.hpp>

#include <health.grpc.pb.h>
#include <inference.grpc.pb.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

using namespace std::chrono_literals;
using namespace serve;
using namespace serve::test;
using gpuactors::test::must;

namespace {

/// The fronts over the test models, and a channel to them.
struct Served {
  explicit Served(const std::filesystem::path& token_file = {}, const std::filesystem::path& request_log = {}) {
    FrontOptions options;
    options.token_file = token_file;
    options.request_log = request_log;
    options.grpc = gpuactors::Endpoint{"127.0.0.1", 0};
    fronts.emplace(must(Fronts::open(service, options)));
    channel = channel_to(*fronts->grpc());
  }

  TestService service;
  std::optional<Fronts> fronts;
  std::shared_ptr<grpc::Channel> channel;
};

} // namespace

TEST_CASE("a stream that has nothing to answer ends at once when the server does", "[serve]") {
  Served served;
  auto stub = inference::GRPCInferenceService::NewStub(served.channel);
  grpc::ClientContext context;
  auto stream = stub->ModelStreamInfer(&context);
  inference::ModelStreamInferResponse response;
  REQUIRE(stream->Write(row_for("line")));
  REQUIRE(stream->Read(&response));
  CHECK(response.infer_response().id() == "7");
  served.fronts->stop(20s);
  CHECK_FALSE(stream->Read(&response));
  const auto status = stream->Finish();
  CHECK(status.error_code() == grpc::StatusCode::UNAVAILABLE);
  CHECK(status.error_message() == "the server ends");
}

TEST_CASE("a stream ends with the answer to what it has asked when the server does", "[serve]") {
  Served served;
  auto stub = inference::GRPCInferenceService::NewStub(served.channel);
  grpc::ClientContext context;
  auto stream = stub->ModelStreamInfer(&context);
  auto request = row_for("wait"); // until its timeout
  (*request.mutable_parameters())["timeout"].set_int64_param(200'000);
  REQUIRE(stream->Write(request));
  while (served.service.waiting() == 0)
    std::this_thread::yield();
  std::thread stopping{[&] { served.fronts->stop(20s); }};
  inference::ModelStreamInferResponse response;
  CHECK(stream->Read(&response));
  CHECK(response.infer_response().id() == "7");
  CHECK_FALSE(stream->Read(&response));
  CHECK(stream->Finish().error_message() == "the server ends");
  stopping.join();
}

TEST_CASE("each request over gRPC has a line in the log, and its client is told its id", "[serve]") {
  const gpuactors::test::TemporaryFolder folder;
  const auto file = folder.path() / "log";
  {
    Served served{{}, file};
    auto stub = inference::GRPCInferenceService::NewStub(served.channel);
    inference::ModelInferResponse answer;
    for (const auto* model : {"line", "none"}) {
      grpc::ClientContext context;
      context.AddMetadata("x-request-id", "mine-1");
      CHECK(stub->ModelInfer(&context, row_for(model), &answer).ok() == (std::string_view{model} == "line"));
      CHECK(context.GetServerInitialMetadata().find("x-request-id")->second == "mine-1");
    }
    {
      grpc::ClientContext context;
      auto stream = stub->ModelStreamInfer(&context);
      inference::ModelStreamInferResponse response;
      REQUIRE(stream->Write(row_for("line")));
      REQUIRE(stream->Read(&response));
      CHECK(context.GetServerInitialMetadata().find("x-request-id")->second.size() == 16);
      stream->WritesDone();
      CHECK(stream->Finish().ok());
    }
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + 50ms);
    CHECK_FALSE(stub->ModelInfer(&context, row_for("wait"), &answer).ok());
  }
  std::ifstream lines{file};
  std::vector<std::string> found;
  for (std::string line; std::getline(lines, line);)
    found.push_back(line);
  REQUIRE(found.size() == 4);
  const auto says = [&](std::size_t number, const std::string& part) {
    return found[number].find(part) != std::string::npos;
  };
  CHECK(says(0, R"("front":"grpc","client":"127.0.0.1:)"));
  CHECK(says(0, R"("id":"mine-1","request":"ModelInfer","model":"line","version":"1","status":0)"));
  CHECK(says(1, R"("model":"none","status":5)"));
  CHECK(says(2, R"("request":"ModelStreamInfer","model":"line","version":"1","status":0)"));
  CHECK(says(3, R"("model":"wait","status":1)"));
}

TEST_CASE("a request over gRPC belongs to the trace that its metadata name, if they name one", "[serve]") {
  const gpuactors::test::TemporaryFolder folder;
  const auto file = folder.path() / "log";
  {
    Served served{{}, file};
    auto stub = inference::GRPCInferenceService::NewStub(served.channel);
    const auto trace_of = [&](const std::vector<std::string>& parents) {
      grpc::ClientContext context;
      for (const auto& parent : parents)
        context.AddMetadata("traceparent", parent);
      inference::ModelInferResponse answer;
      CHECK(stub->ModelInfer(&context, row_for("line"), &answer).ok());
      return served.service.last().trace;
    };
    const gpuactors::TraceContext parent{0x0af7651916cd43dd, 0x8448eb211c80319c, 0xb7ad6b7169203331, false};
    CHECK(trace_of({to_traceparent(parent)}) == parent);
    CHECK(trace_of({}) == gpuactors::TraceContext{});
    CHECK(trace_of({"0af7651916cd43dd"}) == gpuactors::TraceContext{});
    CHECK(trace_of({to_traceparent(parent), to_traceparent(parent)}) == gpuactors::TraceContext{});
    grpc::ClientContext context;
    context.AddMetadata("traceparent", to_traceparent(parent));
    auto stream = stub->ModelStreamInfer(&context);
    inference::ModelStreamInferResponse response;
    REQUIRE(stream->Write(row_for("line")));
    REQUIRE(stream->Read(&response));
    CHECK(served.service.last().trace == parent);
    stream->WritesDone();
    CHECK(stream->Finish().ok());
  }
  std::ifstream lines{file};
  int traced = 0;
  for (std::string line; std::getline(lines, line);)
    traced += line.find(R"("trace":"0af7651916cd43dd8448eb211c80319c")") == std::string::npos ? 0 : 1;
  CHECK(traced == 2);
}

TEST_CASE("answers over gRPC are counted by code, each one of a stream", "[serve]") {
  Served served;
  auto stub = inference::GRPCInferenceService::NewStub(served.channel);
  inference::ModelInferResponse answer;
  for (const auto* model : {"line", "none", "none"}) {
    grpc::ClientContext context;
    CHECK(stub->ModelInfer(&context, row_for(model), &answer).ok() == (std::string_view{model} == "line"));
  }
  grpc::ClientContext context;
  auto stream = stub->ModelStreamInfer(&context);
  inference::ModelStreamInferResponse response;
  for (const auto* model : {"line", "line", "none"}) {
    REQUIRE(stream->Write(row_for(model)));
    REQUIRE(stream->Read(&response));
  }
  const auto counts = served.fronts->counts().grpc_answers;
  CHECK(counts == std::map<int, std::uint64_t>{{grpc::StatusCode::OK, 3}, {grpc::StatusCode::NOT_FOUND, 3}});
  stream->WritesDone();
  CHECK(stream->Finish().ok());
}

TEST_CASE("the deadline of a call is no timeout of its request, and its time begins when it has arrived", "[serve]") {
  Served served;
  auto stub = inference::GRPCInferenceService::NewStub(served.channel);
  inference::ModelInferResponse answer;
  const auto begin = gpuactors::Clock::now();
  grpc::ClientContext unlimited;
  REQUIRE(stub->ModelInfer(&unlimited, row_for("line"), &answer).ok());
  CHECK(served.service.last().call_deadline == gpuactors::never);
  CHECK(served.service.last().arrived >= begin);
  CHECK(served.service.last().arrived <= gpuactors::Clock::now());
  grpc::ClientContext limited;
  limited.set_deadline(std::chrono::system_clock::now() + std::chrono::minutes{1});
  REQUIRE(stub->ModelInfer(&limited, row_for("line"), &answer).ok());
  CHECK_FALSE(served.service.last().timeout.has_value());
  CHECK(served.service.last().call_deadline > begin);
  // gRPC sends what is left, rounded up.
  CHECK(served.service.last().call_deadline <= gpuactors::Clock::now() + std::chrono::minutes{2});
}

TEST_CASE("an id that is too long is refused, and not repeated by a stream", "[serve]") {
  Served served;
  auto stub = inference::GRPCInferenceService::NewStub(served.channel);
  auto request = row_for("line");
  request.set_id(std::string(1'025, 'i'));
  inference::ModelInferResponse answer;
  grpc::ClientContext context;
  CHECK(stub->ModelInfer(&context, request, &answer).error_code() == grpc::StatusCode::INVALID_ARGUMENT);
  grpc::ClientContext other_context;
  auto stream = stub->ModelStreamInfer(&other_context);
  inference::ModelStreamInferResponse response;
  REQUIRE(stream->Write(request));
  REQUIRE(stream->Read(&response));
  CHECK(response.error_message() == "the request's id has 1025 bytes: it may have 1024");
  CHECK(response.infer_response().id().empty());
  stream->WritesDone();
  CHECK(stream->Finish().ok());
}

TEST_CASE("a load over gRPC with too many parameters is refused", "[serve]") {
  Served served;
  auto stub = inference::GRPCInferenceService::NewStub(served.channel);
  inference::RepositoryModelLoadRequest request;
  request.set_model_name("line");
  inference::RepositoryModelLoadResponse response;
  for (int i = 0; i < 64; ++i)
    (*request.mutable_parameters())["p" + std::to_string(i)].set_int64_param(i);
  grpc::ClientContext context;
  CHECK(stub->RepositoryModelLoad(&context, request, &response).ok());
  (*request.mutable_parameters())["one more"].set_bool_param(true);
  grpc::ClientContext other_context;
  const auto status = stub->RepositoryModelLoad(&other_context, request, &response);
  CHECK(status.error_code() == grpc::StatusCode::INVALID_ARGUMENT);
  CHECK(status.error_message() == "the request has more than 64 parameters");
}

namespace {

namespace health = grpc::health::v1;
using Status = health::HealthCheckResponse;

/// What a check says of a name: its status, or the code of the refusal.
std::string check(Served& served, const std::string& name) {
  grpc::ClientContext context;
  health::HealthCheckRequest request;
  request.set_service(name);
  Status response;
  const auto status = health::Health::NewStub(served.channel)->Check(&context, request, &response);
  return status.ok() ? Status::ServingStatus_Name(response.status()) : std::to_string(status.error_code());
}

} // namespace

TEST_CASE("health checks tell of the server and of each model", "[serve]") {
  Served served;
  CHECK(check(served, "") == "SERVING");
  CHECK(check(served, "inference.GRPCInferenceService") == "SERVING");
  CHECK(check(served, "line") == "SERVING");
  CHECK(check(served, "none") == std::to_string(grpc::StatusCode::NOT_FOUND));
  must(served.service.unload("echo"));
  CHECK(check(served, "") == "NOT_SERVING");
  CHECK(check(served, "echo") == "NOT_SERVING");
  CHECK(check(served, "line") == "SERVING");
}

TEST_CASE("only the health of the server is told without a token", "[serve]") {
  const gpuactors::test::TemporaryFolder folder;
  const auto file = folder / "tokens";
  std::ofstream{file} << "0123456789abcdef\n";
  std::filesystem::permissions(file, std::filesystem::perms::owner_read);
  Served served{file};
  CHECK(check(served, "") == "SERVING");
  CHECK(check(served, "line") == std::to_string(grpc::StatusCode::UNAUTHENTICATED));
  grpc::ClientContext context;
  health::HealthCheckRequest request;
  request.set_service("line");
  auto watch = health::Health::NewStub(served.channel)->Watch(&context, request);
  Status response;
  CHECK_FALSE(watch->Read(&response));
  CHECK(watch->Finish().error_code() == grpc::StatusCode::UNAUTHENTICATED);
}

TEST_CASE("a token that may only ask loads and unloads nothing", "[serve]") {
  const gpuactors::test::TemporaryFolder folder;
  const auto file = folder / "tokens";
  std::ofstream{file} << "0123456789abcdef\nask fedcba9876543210\n";
  std::filesystem::permissions(file, std::filesystem::perms::owner_read);
  Served served{file};
  auto stub = inference::GRPCInferenceService::NewStub(served.channel);
  const auto unload = [&](const std::string& token) {
    grpc::ClientContext context;
    context.AddMetadata("authorization", "Bearer " + token);
    inference::RepositoryModelUnloadRequest request;
    request.set_model_name("line");
    inference::RepositoryModelUnloadResponse response;
    return stub->RepositoryModelUnload(&context, request, &response).error_code();
  };
  CHECK(unload("0000000000000000") == grpc::StatusCode::UNAUTHENTICATED);
  CHECK(unload("fedcba9876543210") == grpc::StatusCode::PERMISSION_DENIED);
  CHECK(unload("0123456789abcdef") == grpc::StatusCode::OK);
}

TEST_CASE("who watches the health of a model is told of each change, and of the end", "[serve]") {
  Served served;
  auto stub = health::Health::NewStub(served.channel);
  health::HealthCheckRequest request;
  request.set_service("line");
  grpc::ClientContext context;
  auto watch = stub->Watch(&context, request);
  request.set_service("none");
  grpc::ClientContext other_context;
  auto other = stub->Watch(&other_context, request);
  Status response;
  REQUIRE(watch->Read(&response));
  CHECK(response.status() == Status::SERVING);
  REQUIRE(other->Read(&response));
  CHECK(response.status() == Status::SERVICE_UNKNOWN);
  must(served.service.unload("line"));
  REQUIRE(watch->Read(&response));
  CHECK(response.status() == Status::NOT_SERVING);
  must(served.service.load("line", {}));
  REQUIRE(watch->Read(&response));
  CHECK(response.status() == Status::SERVING);
  // One who has gone is forgotten.
  other_context.TryCancel();
  CHECK(other->Finish().error_code() == grpc::StatusCode::CANCELLED);
  served.fronts->stop(20s);
  REQUIRE(watch->Read(&response));
  CHECK(response.status() == Status::NOT_SERVING);
  CHECK_FALSE(watch->Read(&response));
  CHECK(watch->Finish().error_message() == "the server ends");
}
