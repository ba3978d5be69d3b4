// The JSON of the generate extension, and replies that are put together.
#include "requests.hpp"
#include "test_talk.hpp"

#include <apps/serve/http/route.hpp>
#include <apps/serve/protocol/generate_json.hpp>
#include <apps/serve/protocol/joined_reply.hpp>
#include <apps/serve/protocol/tensor_rules.hpp>
#include <support/results.hpp>

#include <chrono>
#include <limits>

using namespace serve;
using namespace serve::test;
using gpuactors::Errc;
using gpuactors::test::code_of;
using gpuactors::test::must;
using gpuactors::test::says;

namespace {

gpuactors::Result<std::string> written_generation(const InferReply& reply) {
  HeldShare share;
  return write_generation(reply, share);
}

using Shape = std::vector<std::int64_t>;

ModelDescription generator(std::vector<TensorSpec> inputs, bool generative = true) {
  auto model = describe_talk();
  model.name = "m";
  model.inputs = std::move(inputs);
  model.generative = generative;
  return model;
}

NamedTensor input_of(std::string_view json, const TensorSpec& takes) {
  auto request = must(read_generation(body_of(json), generator({takes})));
  REQUIRE(request.inputs.size() == 1);
  return request.inputs[0];
}

std::string refused(std::string_view json, const std::vector<TensorSpec>& takes, bool generative = true) {
  const auto request = read_generation(body_of(json), generator(takes, generative));
  CHECK(code_of(request) == Errc::invalid_argument);
  return request.error().message();
}

bool has(const std::string& sentence, std::string_view words) {
  INFO(sentence);
  return sentence.find(words) != std::string::npos;
}

std::string elements(const std::vector<std::string>& texts) {
  std::string data;
  for (const auto& text : texts)
    append_bytes_element(data, text);
  return data;
}

std::string text_of(const Bytes& bytes) {
  return {reinterpret_cast<const char*>(bytes.view().data()), bytes.size()};
}

NamedTensor texts(const std::vector<std::string>& values) {
  return {"text", DataType::bytes, {static_cast<std::int64_t>(values.size())}, Bytes::of(elements(values))};
}

NamedTensor numbers(Shape shape, std::vector<std::int32_t> values) {
  return {"numbers", DataType::int32, std::move(shape), Bytes::of(std::move(values))};
}

const InferReply head{"m", "2", "7", {}};

} // namespace

TEST_CASE("the sequence of a request to generate is found without its model", "[serve]") {
  const auto found = [](std::string_view json) {
    const auto step = find_sequence(body_of(json));
    return step.id + (step.start ? "<" : "") + (step.end ? ">" : "");
  };
  CHECK(found(R"({"text": ["a", {"b": 1}], "sequence_id": 7, "sequence_start": true, "old": null})") == "7<");
  CHECK(found(R"({"parameters": {"n": [1], "sequence_end": true, "sequence_id": "talk"}, "text": "sequence_id"})")
        == "talk>");
  CHECK(found(R"({"text": "a", "sequence_id": 0})").empty());
  for (const auto* json : {R"({"text": "a"})", R"({"sequence_id": {}})", R"({"sequence_id": 7)", R"(["sequence_id"])",
                           R"({"sequence_id": 0, "sequence_end": true})", "sequence_id", ""})
    CHECK(found(json).empty());
}

TEST_CASE("paths of the generate extension lead to a model") {
  const auto stream = find_route("/v2/models/chat/versions/2/generate_stream");
  REQUIRE(stream);
  CHECK(stream->endpoint == EndpointKind::generate_stream);
  CHECK(stream->model == "chat");
  CHECK(stream->version == "2");
  CHECK(find_route("/v2/models/chat/generate")->endpoint == EndpointKind::generate);
  CHECK(method_of(EndpointKind::generate) == "POST");
  CHECK(is_inference(EndpointKind::generate_stream));
  CHECK_FALSE(find_route("/v2/models/chat/generate/1"));
}

TEST_CASE("a value of the generate extension has the shape that its input leaves open") {
  const auto text = input_of(R"({"text": "a \"b\"\n" , "id":"7"})", {"text", DataType::bytes, {1}});
  CHECK(text.shape == Shape{1});
  CHECK(text_of(text.data) == elements({"a \"b\"\n"}));
  CHECK(input_of(R"({"text":"a"})", {"text", DataType::bytes, {-1}}).shape == Shape{1});
  CHECK(input_of(R"({"text":"a"})", {"text", DataType::bytes, {}}).shape.empty());
  CHECK(input_of(R"({"text":["a","bc"]})", {"text", DataType::bytes, {-1}}).shape == Shape{2});
  const TensorSpec pairs{"x", DataType::int32, {-1, 2}};
  for (const auto* json : {R"({"x":[1,2,3,4]})", R"({"x":[[1,2],[3,4]]})", R"({"x" : [ [1, 2] , [3,4] ] })"}) {
    const auto x = input_of(json, pairs);
    CHECK(x.shape == Shape{2, 2});
    CHECK(values_of<std::int32_t>(x.data) == std::vector<std::int32_t>{1, 2, 3, 4});
  }
  CHECK(input_of(R"({"x":[]})", pairs).shape == Shape{0, 2});
  CHECK(input_of(R"({"x":[[[1],[2]],[[3],[4]],[[5],[6]]]})", {"x", DataType::fp64, {-1, -1, 1}}).shape
        == Shape{3, 2, 1});
  CHECK(values_of<std::uint8_t>(input_of(R"({"x":true})", {"x", DataType::boolean, {1, 1}}).data)
        == std::vector<std::uint8_t>{1});
}

TEST_CASE("values that do not fit their input are refused") {
  const TensorSpec pairs{"x", DataType::int32, {-1, 2}};
  CHECK(has(refused(R"({"x":1})", {pairs}), "input \"x\" has a single value, and its shape is [-1,2]"));
  CHECK(has(refused(R"({"x":[1,2,3]})", {pairs}), "more data than the 2 elements of its shape [1,2]"));
  CHECK(has(refused(R"({"x":[[1,2,3]]})", {pairs}), "is nested as [1,3], and its shape is [-1,2]"));
  CHECK(has(refused(R"({"x":[[1,2],[3]]})", {pairs}), "nested unlike its shape"));
  CHECK(has(refused(R"({"x":[[1,2],3]})", {pairs}), "is not an array"));
  CHECK(has(refused(R"({"x":[1,2]})", {{"x", DataType::int32, {-1, -1}}}), "does not say the sizes"));
  CHECK(has(refused(R"({"x":["1","2"]})", {pairs}), "is not a whole number"));
  CHECK(has(refused(R"({"x":{"a":1}})", {pairs}), "is not a value or a list of them"));
  CHECK(has(refused(R"({"x":null})", {pairs}), "is not a value or a list of them"));
  CHECK(has(refused(R"({"x":[[[[[[[[[[1]]]]]]]]]]})", {pairs}), "is nested as [1,1,1"));
  CHECK(has(refused(R"({"x":0.5})", {{"x", DataType::fp16, {1}}}), "of which JSON has no elements"));
  for (const auto* json : {"", "{", "[]", R"({"x":[1,2})", R"({"x":[1,2]]})", R"({"x":[1 2]})", R"({"x":[1,2]} 3)",
                           R"({"x":"a)", R"({"x":tru})", R"({"x":[[1,2],[3,4})"}) {
    INFO(json);
    const auto request = read_generation(body_of(json), generator({pairs}));
    CHECK(code_of(request) == Errc::invalid_argument);
  }
}

TEST_CASE("what comes beside the inputs are parameters of the request, each once") {
  const TensorSpec text{"text", DataType::bytes, {1}};
  const auto request = must(read_generation(
      body_of(R"({"text":"a","id":"7","max_tokens":20,"parameters":{"seed":-3,"temperature":0.5,"greedy":false,)"
              R"("stop":".","priority":3,"timeout":1500,"triton_enable_empty_final_response":true}})"),
      generator({text})));
  CHECK(request.id == "7");
  CHECK(request.priority == 3);
  CHECK(request.timeout == std::chrono::microseconds{1'500});
  CHECK(request.parameters
        == std::map<std::string, Parameter>{{"max_tokens", std::int64_t{20}},
                                            {"seed", std::int64_t{-3}},
                                            {"temperature", 0.5},
                                            {"greedy", false},
                                            {"stop", std::string{"."}}});
  CHECK(has(refused(R"({"text":"a","seed":1,"parameters":{"seed":2}})", {text}), "has \"seed\" twice"));
  CHECK(has(refused(R"({"text":"a","text":"b"})", {text}), "has \"text\" twice"));
  CHECK(has(refused(R"({"text":"a","seed":18446744073709551615})", {text}),
            "not a whole number of 64 bits with its sign"));
  CHECK(has(refused(R"({"text":"a","parameters":{"seed":[1]}})", {text}), "not a string, number or boolean"));
  CHECK(has(refused(R"({"text":"a","parameters":7})", {text}), "\"parameters\" is not an object"));
  CHECK(has(refused(R"({"text":"a","txt":["b"]})", {text}),
            "model \"m\" has no input \"txt\": the keys are its inputs (\"text\")"));
  const auto step = must(read_generation(
      body_of(R"({"text":"a","sequence_id":7,"parameters":{"sequence_start":true}})"), generator({text})));
  CHECK(step.sequence.id == "7");
  CHECK(step.sequence.start);
  CHECK_FALSE(step.sequence.end);
  CHECK(step.parameters.empty());
  CHECK(has(refused(R"({"text":"a","sequence_start":true})", {text}), "no sequence_id"));
  // An ordinary model has nothing that would understand it.
  CHECK(has(refused(R"({"text":"a","seed":1})", {text}, false), "has no input \"seed\""));
}

TEST_CASE("parameters of a request are 256, with 64 KiB of names and texts") {
  const TensorSpec text{"text", DataType::bytes, {1}};
  std::string many = R"({"text":"a","id":"7","parameters":{})";
  for (int i = 0; i < 256; ++i)
    many += ",\"p" + std::to_string(i) + "\":1";
  CHECK(must(read_generation(body_of(many + "}"), generator({text}))).parameters.size() == 256);
  CHECK(has(refused(many + ",\"more\":1}", {text}), "more than 256 parameters"));
  const auto with_stop = [](std::size_t bytes) {
    return R"({"text":"a","seed":1,"stop":")" + std::string(bytes, 'x') + R"("})";
  };
  const auto fits = must(read_generation(body_of(with_stop(65'528)), generator({text})));
  CHECK(std::get<std::string>(fits.parameters.at("stop")).size() == 65'528);
  CHECK(has(refused(with_stop(65'529), {text}),
            "have 65537 bytes with \"stop\", names and texts together: they may have 65536"));
  CHECK(has(refused(R"({"text":"a",")" + std::string(65'537, 'x') + R"(":1})", {text}), "have 65537 bytes"));
  // What an ordinary model would not understand is not kept for it.
  const auto ordinary = generator({text}, false);
  CHECK(must(read_generation(body_of(R"({"text":"a","parameters":{"seed":1}})"), ordinary)).parameters.empty());
}

TEST_CASE("inputs may stand among the parameters, each once") {
  const TensorSpec text{"text", DataType::bytes, {1}};
  const TensorSpec tokens{"max_tokens", DataType::int32, {1}};
  for (const bool generative : {true, false}) {
    const auto request = must(read_generation(body_of(R"({"text":"a","parameters":{"max_tokens":20}})"),
                                              generator({text, tokens}, generative)));
    REQUIRE(request.inputs.size() == 2);
    CHECK(request.inputs[1].name == "max_tokens");
    CHECK(values_of<std::int32_t>(request.inputs[1].data) == std::vector<std::int32_t>{20});
    CHECK(request.parameters.empty());
  }
  CHECK(has(refused(R"({"text":"a","max_tokens":1,"parameters":{"max_tokens":2}})", {text, tokens}),
            "has \"max_tokens\" twice"));
  CHECK(has(refused(R"({"text":"a","parameters":{"max_tokens":{}}})", {text, tokens}),
            "input \"max_tokens\" is not a value or a list of them"));
}

TEST_CASE("a reply of the generate extension has values under the names of its outputs") {
  InferReply reply{"m", "2", "7", {texts({"a\"b"}), numbers({2}, {1, 2})}};
  CHECK(must(written_generation(reply))
        == R"({"id":"7","model_name":"m","model_version":"2","text":"a\"b","numbers":[1,2]})");
  reply = {"m", "2", "", {texts({}), numbers({1, 1}, {3})}};
  CHECK(must(written_generation(reply)) == R"({"model_name":"m","model_version":"2","text":[],"numbers":3})");
  reply.outputs = {texts({"\xff"})};
  CHECK(says(written_generation(reply), "no UTF-8 text, which JSON cannot say: ask for it over gRPC"));
}

TEST_CASE("replies are put together along what their description leaves open, and texts to one") {
  JoinedReply joined{head, describe_talk().outputs, 1'000, nullptr};
  must(joined.add({"m", "2", "7", {texts({"Gr\xc3"}), numbers({1}, {1})}}));
  must(joined.add({"m", "2", "7", {texts({"\xbc"}), numbers({0}, {})}}));
  must(joined.add({"m", "2", "7", {texts({"n"}), numbers({2}, {2, 3})}}));
  must(joined.add({"m", "2", "7", {{"score", DataType::fp32, {1}, Bytes::of(std::vector<float>{0.5F})}}}));
  CHECK(must(written_generation(std::move(joined).take()))
        == R"({"id":"7","model_name":"m","model_version":"2","text":"Grün","numbers":[1,2,3],"score":0.5})");

  JoinedReply one{head, describe_talk().outputs, 1'000, nullptr};
  must(one.add({"m", "2", "", {texts({"a"}), numbers({1}, {1})}}));
  CHECK(must(written_generation(std::move(one).take()))
        == R"({"model_name":"m","model_version":"2","text":"a","numbers":1})");

  CHECK(must(written_generation(JoinedReply{head, describe_talk().outputs, 1'000, nullptr}.take()))
        == R"({"id":"7","model_name":"m","model_version":"2"})");
}

TEST_CASE("replies that do not make one, and too many of them, are refused with the way out") {
  const NamedTensor score{"score", DataType::fp32, {1}, Bytes::of(std::vector<float>{0.5F})};
  JoinedReply joined{head, describe_talk().outputs, 1'000, nullptr};
  must(joined.add({"m", "2", "", {score}}));
  const auto twice = joined.add({"m", "2", "", {score}});
  CHECK(code_of(twice) == Errc::unsupported);
  CHECK(says(twice, "output \"score\" comes several times"));

  // Of several texts at once, none may be lost.
  JoinedReply pairs{head, {{"text", DataType::bytes, {-1, -1}}}, 1'000, nullptr};
  must(pairs.add({"m", "2", "", {{"text", DataType::bytes, {1, 1}, Bytes::of(elements({"a"}))}}}));
  must(pairs.add({"m", "2", "", {{"text", DataType::bytes, {1, 1}, Bytes::of(elements({"b"}))}}}));
  CHECK(code_of(pairs.add({"m", "2", "", {{"text", DataType::bytes, {2, 1}, Bytes::of(elements({"c", "d"}))}}}))
        == Errc::unsupported);

  JoinedReply small{head, describe_talk().outputs, 20, nullptr};
  must(small.add({"m", "2", "", {texts({"0123456789"})}}));
  CHECK(says(small.add({"m", "2", "", {texts({"0123456789"})}}), "more than the 20 bytes"));

  JoinedReply held{head, describe_talk().outputs, 1'000, std::make_shared<HeldBytes>(20)};
  must(held.add({"m", "2", "", {texts({"0123456789"})}}));
  CHECK(code_of(held.add({"m", "2", "", {texts({"0123456789"})}})) == Errc::no_capacity);
}
