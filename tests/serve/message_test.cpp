#include "requests.hpp"

#include <apps/serve/protocol/messages.hpp>
#include <support/catch.hpp>

#include <chrono>
#include <limits>
#include <memory>

using namespace serve;
using namespace serve::test;

namespace {

using Message = inference::ModelInferRequest;

std::shared_ptr<Message> message_with(const std::string& type, std::vector<std::int64_t> shape) {
  auto message = std::make_shared<Message>();
  message->set_model_name("m");
  auto& input = *message->add_inputs();
  input.set_name("x");
  input.set_datatype(type);
  input.mutable_shape()->Assign(shape.begin(), shape.end());
  return message;
}

bool is_refused(const std::shared_ptr<const Message>& message, std::string_view words) {
  const auto result = request_of(message);
  if (result)
    return false;
  INFO(result.error().message());
  CHECK(result.error().code() == gpuactors::Errc::invalid_argument);
  return result.error().message().find(words) != std::string::npos;
}

} // namespace

TEST_CASE("raw contents are views that keep the message") {
  auto message = message_with("FP32", {2});
  message->set_id("7");
  message->add_raw_input_contents(raw_of<float>({1, 2}));
  (*message->mutable_parameters())["timeout"].set_int64_param(250);
  (*message->mutable_parameters())["priority"].set_uint64_param(2);
  message->add_outputs()->set_name("y");
  const auto* raw = message->raw_input_contents(0).data();
  const auto request = request_of(message);
  message.reset();
  REQUIRE(request);
  CHECK(request->model == "m");
  CHECK(request->id == "7");
  CHECK(request->priority == 2);
  CHECK(request->timeout == gpuactors::Duration{std::chrono::microseconds{250}});
  CHECK(request->outputs == std::vector<std::string>{"y"});
  CHECK(static_cast<const void*>(request->inputs[0].data.view().data()) == raw);
  CHECK(values_of<float>(request->inputs[0].data) == std::vector<float>{1, 2});
}

TEST_CASE("the sequence of a message is a number of either kind or a text, with flags") {
  auto message = message_with("FP32", {1});
  message->add_raw_input_contents(raw_of<float>({1}));
  auto& parameters = *message->mutable_parameters();
  CHECK(request_of(message)->sequence.id.empty());
  parameters["sequence_id"].set_uint64_param(std::numeric_limits<std::uint64_t>::max());
  parameters["sequence_start"].set_bool_param(true);
  parameters["sequence_end"].set_bool_param(false);
  const auto request = request_of(message);
  REQUIRE(request);
  CHECK(request->sequence.id == "18446744073709551615");
  CHECK(request->sequence.start);
  CHECK_FALSE(request->sequence.end);
  CHECK(request->parameters.empty());
  parameters["sequence_id"].set_int64_param(-1);
  CHECK(is_refused(message, "the parameter \"sequence_id\" is not a whole number of at least 0"));
  parameters["sequence_id"].set_int64_param(0);
  CHECK(is_refused(message, "the request has \"sequence_start\", and no sequence_id other than 0"));
  parameters["sequence_id"].set_string_param(std::string(128, 's'));
  CHECK(request_of(message)->sequence.id.size() == 128);
  parameters["sequence_id"].set_string_param(std::string(129, 's'));
  CHECK(is_refused(message, "the sequence_id has 129 bytes: it may have 128"));
  parameters["sequence_id"].set_string_param("a");
  parameters["sequence_end"].set_int64_param(1);
  CHECK(is_refused(message, "the parameter \"sequence_end\" is not a boolean"));
  parameters.erase("sequence_end");
  (*message->mutable_inputs(0)->mutable_parameters())["sequence_id"].set_int64_param(1);
  CHECK(is_refused(message, "there is no parameter \"sequence_id\" here"));
}

TEST_CASE("a message's id has a bound") {
  auto message = message_with("FP32", {2});
  message->add_raw_input_contents(raw_of<float>({1, 2}));
  message->set_id(std::string(1'024, 'i'));
  CHECK(request_of(message));
  message->set_id(std::string(1'025, 'i'));
  CHECK(is_refused(message, "the request's id has 1025 bytes: it may have 1024"));
}

TEST_CASE("names and texts of a message's parameters have a bound") {
  auto message = message_with("FP32", {2});
  message->add_raw_input_contents(raw_of<float>({1, 2}));
  auto& parameters = *message->mutable_parameters();
  parameters["seed"].set_int64_param(1);
  parameters["stop"].set_string_param(std::string(65'528, 'x'));
  CHECK(request_of(message)->parameters.size() == 2);
  parameters["stop"].set_string_param(std::string(65'529, 'x'));
  CHECK(is_refused(message, "the request's parameters have 65537 bytes"));
}

TEST_CASE("typed contents are read from the field of their type, within its range") {
  auto message = message_with("INT8", {2});
  message->mutable_inputs(0)->mutable_contents()->add_int_contents(-128);
  message->mutable_inputs(0)->mutable_contents()->add_int_contents(127);
  CHECK(values_of<std::int8_t>(request_of(message)->inputs[0].data) == std::vector<std::int8_t>{-128, 127});
  message->mutable_inputs(0)->mutable_contents()->set_int_contents(1, 128);
  CHECK(is_refused(message, "element 1 of input \"x\" is 128, which is not INT8"));
  message->mutable_inputs(0)->mutable_contents()->add_fp32_contents(1);
  CHECK(is_refused(message, "more than one field"));

  auto text = message_with("BYTES", {2});
  text->mutable_inputs(0)->mutable_contents()->add_bytes_contents("ab");
  text->mutable_inputs(0)->mutable_contents()->add_bytes_contents("");
  CHECK(values_of<char>(request_of(text)->inputs[0].data) == std::vector<char>{2, 0, 0, 0, 'a', 'b', 0, 0, 0, 0});

  auto flags = message_with("BOOL", {1});
  flags->mutable_inputs(0)->mutable_contents()->add_bool_contents(true);
  CHECK(values_of<char>(request_of(flags)->inputs[0].data) == std::vector<char>{1});
  CHECK(is_refused(message_with("FP16", {0}), "only raw_input_contents"));
  auto wrong = message_with("FP32", {1});
  wrong->mutable_inputs(0)->mutable_contents()->add_fp64_contents(1);
  CHECK(is_refused(wrong, "has 0 bytes"));
}

TEST_CASE("messages that do not fit together are refused") {
  CHECK(is_refused(std::make_shared<Message>(), "no inputs"));
  CHECK(is_refused(message_with("FP33", {1}), "FP33"));
  CHECK(is_refused(message_with("FP32", {-1}), "negative"));
  CHECK(is_refused(message_with("FP32", {1LL << 62, 1LL << 62}), "more than"));
  auto two = message_with("FP32", {1});
  two->add_raw_input_contents("1234");
  two->add_raw_input_contents("1234");
  CHECK(is_refused(two, "1 inputs and 2 raw_input_contents"));
  auto both = message_with("FP32", {1});
  both->add_raw_input_contents("1234");
  both->mutable_inputs(0)->mutable_contents()->add_fp32_contents(1);
  CHECK(is_refused(both, "beside raw_input_contents"));
  auto small = message_with("FP32", {2});
  small->add_raw_input_contents("1234");
  CHECK(is_refused(small, "has 4 bytes"));
  auto shared = message_with("FP32", {1});
  (*shared->mutable_inputs(0)->mutable_parameters())["shared_memory_region"].set_string_param("r");
  CHECK(is_refused(shared, "shared memory"));
  auto late = message_with("FP32", {1});
  late->add_raw_input_contents("1234");
  (*late->mutable_parameters())["timeout"].set_int64_param(-1);
  CHECK(is_refused(late, "timeout"));
}

TEST_CASE("models are described in messages as in documents") {
  ModelDescription model;
  model.name = "m";
  model.versions = {"1", "2"};
  model.max_batch = 8;
  model.max_queue = 1ULL << 40;
  model.inputs = {{"x", DataType::bytes, {-1, 4}}};
  model.outputs = {{"y", DataType::bf16, {-1}}};
  CHECK(metadata_of(model).inputs(0).shape_size() == 2);
  const auto config = config_of(model).config();
  CHECK(config.max_batch_size() == 8);
  CHECK(config.input(0).data_type() == inference::TYPE_STRING);
  CHECK(config.input(0).dims_size() == 1);
  CHECK(config.output(0).data_type() == inference::TYPE_BF16);
  CHECK(config.dynamic_batching().default_queue_policy().max_queue_size() == 0xffffffffU);
  ModelStatistics statistics;
  statistics.queue = {3, 4};
  statistics.batches[2] = {5, 6};
  const auto message = statistics_of(std::vector{statistics}).model_stats(0);
  CHECK(message.inference_stats().queue().ns() == 4);
  CHECK(message.batch_stats(0).compute_infer().count() == 5);
  CHECK(head_of({"m", "1", "7", {{"y", DataType::fp32, {1}, {}}}}).outputs(0).datatype() == "FP32");
}
