// Streams of generative models over gRPC, as Triton's clients see them.
#include "grpc_requests.hpp"
#include "test_service.hpp"

#include <apps/serve/fronts.hpp>
#include <apps/serve/grpc/channel.hpp>
#include <apps/serve/grpc/request.hpp>
#include <apps/serve/protocol/tensor_rules.hpp>
#include <support/eventually.hpp>
#include <support/results.hpp>

#include <inference.grpc.pb.h>

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>

using namespace std::chrono_literals;
using namespace serve;
using namespace serve::test;
using gpuactors::test::eventually;
using gpuactors::test::must;

namespace {

/// The fronts over the test models, and one stream to them.
struct Talking {
  explicit Talking(const grpc::ChannelArguments& arguments = {}) {
    FrontOptions options;
    options.grpc = gpuactors::Endpoint{"127.0.0.1", 0};
    fronts.emplace(must(Fronts::open(service, options)));
    stub = inference::GRPCInferenceService::NewStub(
        grpc::CreateCustomChannel(to_string(*fronts->grpc()), grpc::InsecureChannelCredentials(), arguments));
    stream = stub->ModelStreamInfer(&context);
  }

  /// The next answer, whose id it returns.
  std::string read() {
    response.Clear();
    REQUIRE(stream->Read(&response));
    return response.infer_response().id();
  }

  [[nodiscard]] bool is_last() const {
    return response.infer_response().parameters().at("triton_final_response").bool_param();
  }

  [[nodiscard]] std::string text() const {
    return response.infer_response().raw_output_contents_size() == 0
               ? ""
               : response.infer_response().raw_output_contents(0).substr(4);
  }

  TestService service;
  std::optional<Fronts> fronts;
  std::unique_ptr<inference::GRPCInferenceService::Stub> stub;
  grpc::ClientContext context;
  std::unique_ptr<grpc::ClientReaderWriter<inference::ModelInferRequest, inference::ModelStreamInferResponse>> stream;
  inference::ModelStreamInferResponse response;
};

inference::ModelInferRequest talk_about(const std::string& text, const std::string& id,
                                        const std::map<std::string, std::int64_t>& parameters = {}) {
  inference::ModelInferRequest request;
  request.set_model_name("talk");
  request.set_id(id);
  auto& input = *request.add_inputs();
  input.set_name("text");
  input.set_datatype("BYTES");
  input.add_shape(1);
  std::string element;
  append_bytes_element(element, text);
  request.add_raw_input_contents(element);
  for (const auto& [name, value] : parameters)
    (*request.mutable_parameters())[name].set_int64_param(value);
  return request;
}

/// A request that fails at once, with an answer that is not small.
inference::ModelInferRequest wrong_talk() {
  auto request = talk_about("abc", std::string(1'000, 'i'));
  request.mutable_inputs(0)->set_name("txt");
  return request;
}

/// Whether a number is still the same after the server has answered others for a while.
bool stands_still(Talking& talking, const std::function<std::size_t()>& number) {
  const auto before = number();
  for (int i = 0; i < 200; ++i) {
    grpc::ClientContext context;
    inference::ModelInferResponse answer;
    REQUIRE(talking.stub->ModelInfer(&context, row_for("line", "row"), &answer).ok());
  }
  return number() == before;
}

} // namespace

TEST_CASE("a stream has all replies to a request in their order, and their end if that is wanted", "[serve]") {
  Talking talking;
  auto request = talk_about("abc", "7");
  (*request.mutable_parameters())["triton_enable_empty_final_response"].set_bool_param(true);
  REQUIRE(talking.stream->Write(request));
  for (const auto* character : {"a", "b", "c"}) {
    CHECK(talking.read() == "7");
    CHECK(talking.response.error_message().empty());
    CHECK(talking.text() == character);
    CHECK(talking.response.infer_response().outputs(1).name() == "numbers");
    CHECK_FALSE(talking.is_last());
  }
  CHECK(talking.read() == "7");
  CHECK(talking.is_last());
  CHECK(talking.response.infer_response().outputs_size() == 0);
  CHECK(talking.response.infer_response().model_name() == "talk");
  CHECK(talking.response.infer_response().model_version() == "1");
  // Where there is nothing but the end, it says the same.
  request = talk_about("abc", "empty", {{"times", 0}});
  (*request.mutable_parameters())["triton_enable_empty_final_response"].set_bool_param(true);
  REQUIRE(talking.stream->Write(request));
  CHECK(talking.read() == "empty");
  CHECK(talking.is_last());
  CHECK(talking.response.infer_response().model_version() == "1");
  // Without the wish, the next request's replies come next.
  REQUIRE(talking.stream->Write(talk_about("d", "8")));
  REQUIRE(talking.stream->Write(row_for("line", "9")));
  std::map<std::string, bool> last;
  for (int i = 0; i < 2; ++i) {
    const auto id = talking.read();
    last[id] = talking.is_last();
  }
  CHECK(last == std::map<std::string, bool>{{"8", false}, {"9", true}});
  talking.stream->WritesDone();
  CHECK_FALSE(talking.stream->Read(&talking.response));
  CHECK(talking.stream->Finish().ok());
  CHECK(talking.fronts->counts().grpc_answers == std::map<int, std::uint64_t>{{0, 4}});
}

TEST_CASE("a talk that stands still holds up no other request of its stream", "[serve]") {
  Talking talking;
  REQUIRE(talking.stream->Write(talk_about("abcdef", "slow", {{"hold_after", 1}})));
  CHECK(talking.read() == "slow");
  REQUIRE(talking.stream->Write(talk_about("xy", "quick")));
  CHECK(talking.read() == "quick");
  CHECK(talking.read() == "quick");
  REQUIRE(talking.stream->Write(row_for("line", "row")));
  CHECK(talking.read() == "row");
  talking.context.TryCancel();
  const auto given_up = [&talks = talking.service.talks()] {
    const std::lock_guard lock{talks.mutex};
    return talks.cancelled == 1 && talks.held == 0;
  };
  CHECK(eventually(given_up));
}

TEST_CASE("an error ends its request and not the stream", "[serve]") {
  Talking talking;
  REQUIRE(talking.stream->Write(talk_about("abc", "7", {{"fail_after", 1}})));
  CHECK(talking.read() == "7");
  CHECK(talking.text() == "a");
  CHECK(talking.read() == "7");
  CHECK(talking.response.error_message() == "the talk broke off");
  CHECK(talking.is_last());
  auto wrong = talk_about("abc", "8");
  wrong.mutable_inputs(0)->set_name("txt");
  REQUIRE(talking.stream->Write(wrong));
  CHECK(talking.read() == "8");
  CHECK(talking.response.error_message() == "model \"talk\" has one input, \"text\"");
  // Also what cannot be read as far as its model.
  wrong.set_id("broken");
  wrong.clear_raw_input_contents();
  wrong.add_raw_input_contents("1234567");
  REQUIRE(talking.stream->Write(wrong));
  CHECK(talking.read() == "broken");
  CHECK_FALSE(talking.response.error_message().empty());
  REQUIRE(talking.stream->Write(talk_about("z", "9")));
  CHECK(talking.read() == "9");
  CHECK(talking.text() == "z");
}

TEST_CASE("requests of a client that does not read are not read either, although they fail at once", "[serve]") {
  // The client's buffer for what it does not read stays as small as it begins.
  grpc::ChannelArguments small;
  small.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  Talking talking{small};
  constexpr std::size_t sent = 2'000;
  std::thread client{[&] {
    for (std::size_t i = 0; i < sent; ++i)
      if (!talking.stream->Write(wrong_talk()))
        return;
  }};
  const auto asked = [&talks = talking.service.talks()] {
    const std::lock_guard lock{talks.mutex};
    return talks.replies;
  };
  CHECK(eventually([&] { return asked() > 32 && stands_still(talking, asked); }));
  // Beside what the buffers between them hold, there are 32, and one that is being written.
  CHECK(asked() < 500);
  talking.context.TryCancel();
  client.join();
}

TEST_CASE("a client that does not read holds up the replies of its talk", "[serve]") {
  Talking talking;
  REQUIRE(talking.stream->Write(talk_about("abc", "7", {{"bytes", 1 << 20}, {"times", 1'000}})));
  const auto asked = [&talks = talking.service.talks()] {
    const std::lock_guard lock{talks.mutex};
    return talks.replies;
  };
  CHECK(eventually([&] { return asked() > 0 && stands_still(talking, asked); }));
  CHECK(asked() < 500);
  CHECK(talking.fronts->counts().held_bytes < 8 << 20);
  // Once it reads, the others come.
  for (int i = 0; i < 1'000; ++i)
    CHECK(talking.read() == "7");
  CHECK(asked() >= 1'000);
}

TEST_CASE("a stream ends when the server does, after the replies to what it has asked", "[serve]") {
  Talking talking;
  REQUIRE(talking.stream->Write(talk_about("abc", "7")));
  CHECK(talking.read() == "7");
  std::thread stopping{[&] { talking.fronts->stop(20s); }};
  CHECK(talking.read() == "7");
  CHECK(talking.read() == "7");
  CHECK_FALSE(talking.stream->Read(&talking.response));
  CHECK(talking.stream->Finish().error_message() == "the server ends");
  stopping.join();
}

TEST_CASE("small replies of a stream go out when the server holds as much as it may, and large ones do not",
          "[serve]") {
  const auto held = std::make_shared<HeldBytes>(10);
  const auto reply = [](std::size_t bytes) {
    return InferReply{"talk", "1", "7", {{"text", DataType::bytes, {1}, Bytes::of(std::string(bytes, 'x'))}}};
  };
  CHECK(hold_item(reply(4'095), held));
  CHECK(held->now() == 0);
  const auto large = hold_item(reply(4'096), held);
  CHECK(gpuactors::test::code_of(large) == gpuactors::Errc::queue_full);
}

TEST_CASE("a call with one answer is refused by a generative model, whose configuration says why", "[serve]") {
  Talking talking;
  grpc::ClientContext context;
  inference::ModelInferResponse answer;
  const auto status = talking.stub->ModelInfer(&context, talk_about("abc", "7"), &answer);
  CHECK(status.error_code() == grpc::StatusCode::UNIMPLEMENTED);
  grpc::ClientContext other;
  inference::ModelConfigRequest ask;
  ask.set_name("talk");
  inference::ModelConfigResponse config;
  REQUIRE(talking.stub->ModelConfig(&other, ask, &config).ok());
  CHECK(config.config().model_transaction_policy().decoupled());
  CHECK(config.config().max_batch_size() == 0);
}
