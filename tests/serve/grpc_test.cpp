// What gRPC's own clients see of the front, where no client of the protocol looks.
#include "test_service.hpp"

#include <apps/serve/fronts.hpp>
#include <apps/serve/grpc/channel.hpp>
#include <support/results.hpp>

#include <inference.grpc.pb.h>

#include <chrono>
#include <memory>
#include <thread>

using namespace std::chrono_literals;
using namespace serve;
using namespace serve::test;
using gpuactors::test::must;

namespace {

/// The fronts over the test models, and a channel to them.
struct Served {
  Served() {
    FrontOptions options;
    options.grpc = gpuactors::Endpoint{"127.0.0.1", 0};
    fronts.emplace(must(Fronts::open(service, options)));
    channel = channel_to(*fronts->grpc());
  }

  TestService service;
  std::optional<Fronts> fronts;
  std::shared_ptr<grpc::Channel> channel;
};

inference::ModelInferRequest request_for(const std::string& model) {
  inference::ModelInferRequest request;
  request.set_model_name(model);
  request.set_id("7");
  auto& input = *request.add_inputs();
  input.set_name("x");
  input.set_datatype("FP32");
  input.add_shape(1);
  input.add_shape(4);
  for (const float value : {1.0F, 2.0F, 3.0F, 4.0F})
    input.mutable_contents()->add_fp32_contents(value);
  return request;
}

} // namespace

TEST_CASE("a stream that has nothing to answer ends at once when the server does", "[serve]") {
  Served served;
  auto stub = inference::GRPCInferenceService::NewStub(served.channel);
  grpc::ClientContext context;
  auto stream = stub->ModelStreamInfer(&context);
  inference::ModelStreamInferResponse response;
  REQUIRE(stream->Write(request_for("line")));
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
  auto request = request_for("wait"); // until its timeout
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
