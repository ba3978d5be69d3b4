// OpenAI's completions and chats: what requests become, and how answers are written.
#include "requests.hpp"
#include "test_talk.hpp"

#include <apps/serve/http/route.hpp>
#include <apps/serve/protocol/openai.hpp>
#include <apps/serve/protocol/tensor_rules.hpp>
#include <support/results.hpp>

#include <fmt/format.h>

#include <cstring>

using namespace serve;
using namespace serve::test;
using gpuactors::Errc;
using gpuactors::test::code_of;
using gpuactors::test::must;

namespace {

struct AskedPath {
  InferRequest request;
  OpenAiWishes wishes;

  [[nodiscard]] std::string text() const {
    auto data = request.inputs.at(0).data.view();
    const auto text = take_bytes_element(data).value();
    return {reinterpret_cast<const char*>(text.data()), text.size()};
  }
};

AskedPath ask(OpenAiKind kind, std::string_view json) {
  AskedPath result;
  result.request = must(read_openai(kind, body_of(json), describe_talk(), result.wishes));
  return result;
}

void path_refuses(OpenAiKind kind, std::string_view json, const std::string& words) {
  OpenAiWishes wishes;
  const auto request = read_openai(kind, body_of(json), describe_talk(), wishes);
  INFO(json);
  CHECK(code_of(request) == Errc::invalid_argument);
  CHECK(gpuactors::test::says(request, words));
}

InferReply item_of(std::string_view text, std::string_view reason = {}, std::int32_t prompt = -1,
                   std::int32_t completion = -1) {
  InferReply reply{"m", "1", {}, {}};
  const auto add_text = [&](std::string_view name, std::string_view value) {
    std::string element;
    append_bytes_element(element, value);
    reply.outputs.push_back({std::string{name}, DataType::bytes, {1}, Bytes::of(std::move(element))});
  };
  const auto add_count = [&](std::string_view name, std::int32_t value) {
    std::string bytes(sizeof value, '\0');
    std::memcpy(bytes.data(), &value, sizeof value);
    reply.outputs.push_back({std::string{name}, DataType::int32, {1}, Bytes::of(std::move(bytes))});
  };
  add_text("text", text);
  if (!reason.empty())
    add_text("finish_reason", reason);
  if (prompt >= 0)
    add_count("prompt_tokens", prompt);
  if (completion >= 0)
    add_count("completion_tokens", completion);
  return reply;
}

} // namespace

TEST_CASE("a completion asks with its prompt, and its settings are the model's parameters", "[serve]") {
  const auto one = ask(OpenAiKind::completion,
                       R"({"model":"m","prompt":"Once \"up","max_tokens":7,"top_p":0.5,"seed":3,"stop":["a","b"],
                            "stream":true,"stream_options":{"include_usage":true},"user":"u","n":1,"logprobs":null,
                            "echo":false,"presence_penalty":0,"frequency_penalty":0.0,"logit_bias":{},"top_k":4})");
  CHECK(one.text() == "Once \"up");
  CHECK(one.wishes.stream);
  CHECK(one.wishes.include_usage);
  const std::map<std::string, Parameter> expected{
      {"max_tokens", std::int64_t{7}}, {"top_p", 0.5},       {"seed", std::int64_t{3}}, {"stop", std::string{"a"}},
      {"stop_2", std::string{"b"}},    {"temperature", 1.0}, {"top_k", std::int64_t{4}}};
  CHECK(one.request.parameters == expected);
  CHECK(ask(OpenAiKind::completion, R"({"prompt":["alone"],"temperature":0})").text() == "alone");
  const auto cold = ask(OpenAiKind::completion, R"({"prompt":"","temperature":0,"stop":"end","timeout":5000})");
  CHECK(cold.request.parameters.at("temperature") == Parameter{std::int64_t{0}});
  CHECK(cold.request.parameters.at("stop") == Parameter{std::string{"end"}});
  CHECK(cold.request.timeout == std::chrono::microseconds{5000});
}

TEST_CASE("a chat asks with its messages and tools as they are, and says that it is one", "[serve]") {
  const auto one = ask(OpenAiKind::chat,
                       R"({"model":"m","messages":[ {"role":"user","content":"ä\n"} ],"tools":[{"type":"function"}],
                            "max_completion_tokens":9,"tool_choice":"auto","response_format":{"type":"text"}})");
  CHECK(one.text() == R"({"messages":[ {"role":"user","content":"ä\n"} ],"tools":[{"type":"function"}]})");
  CHECK(one.request.parameters.at("chat") == Parameter{true});
  CHECK(one.request.parameters.at("max_tokens") == Parameter{std::int64_t{9}});
}

TEST_CASE("what OpenAI's paths do not have is refused, and what asks for nothing is not", "[serve]") {
  const auto completion = [](std::string_view json, const std::string& words) {
    path_refuses(OpenAiKind::completion, json, words);
  };
  completion("{}", "has no \"prompt\"");
  completion(R"({"prompt":null})", "\"prompt\" is null");
  completion(R"({"prompt":["a","b"]})", "\"prompt\" has 2 texts");
  completion(R"({"prompt":[1,2]})", "is not a string");
  completion(R"({"prompt":"a","prompt":"b"})", "\"prompt\" twice");
  completion(R"({"prompt":"a","n":2})", "\"n\" is not supported here");
  completion(R"({"prompt":"a","logprobs":5})", "\"logprobs\" is not supported here");
  completion(R"({"prompt":"a","echo":true})", "\"echo\" is not supported here");
  completion(R"({"prompt":"a","stop":["1","2","3","4","5"]})", "more than 4 texts");
  completion(R"({"prompt":"a","stop":7})", "\"stop\" is not a string");
  completion(R"({"prompt":"a","stream":"yes"})", "\"stream\" is not true or false");
  completion(R"({"prompt":"a","what":[1]})", "\"what\" is not a string, number or boolean");
  completion(R"({"prompt":"a","sequence_id":1})", "none of the fields of this path");
  completion(R"({"prompt":"a","chat":false})", "none of the fields of this path");
  completion(R"({"prompt":"a","stop_2":"b"})", "none of the fields of this path");
  completion(R"({"prompt":"a")", "malformed");
  std::string many = R"({"prompt":"a")";
  for (int i = 0; i < 300; ++i)
    many += fmt::format(R"(,"n{}":null)", i);
  completion(many + "}", "more than 256 fields");
  const auto chat = [](std::string_view json, const std::string& words) {
    path_refuses(OpenAiKind::chat, json, words);
  };
  chat(R"({"prompt":"a"})", "has no \"messages\"");
  chat(R"({"messages":"hello"})", "\"messages\" is not an array");
  chat(R"({"messages":[{"role":user}]})", "malformed");
  chat(R"({"messages":[],"tool_choice":"required"})", "\"tool_choice\" can only be auto or none here");
  chat(R"({"messages":[],"response_format":{"type":"json_object"}})", "can only be text here");
  std::string deep(40, '[');
  chat(R"({"messages":[")" + std::string(5 << 20, 'a') + "\"]}", "a chat has at most");
  chat(R"({"messages":[)" + deep + std::string(40, ']') + "]}", "nested deeper");
  OpenAiWishes wishes;
  auto numbers = describe_talk();
  numbers.inputs[0].shape = {-1};
  CHECK(code_of(read_openai(OpenAiKind::chat, body_of(R"({"messages":[]})"), numbers, wishes))
        == Errc::invalid_argument);
  CHECK(must(find_openai_model(body_of(R"({"messages":[{"model":"inner"}],"model":"outer"})"))) == "outer");
  CHECK(gpuactors::test::says(find_openai_model(body_of(R"({"messages":[]})")), "names no \"model\""));
}

TEST_CASE("a whole answer has its text, why it ended and the counts of tokens", "[serve]") {
  const OpenAiWriter chat{OpenAiKind::chat, "1", 5, {}};
  CHECK(must(chat.whole(item_of("hi \"you\"", "length", 3, 4)))
        == R"({"id":"chatcmpl-1","object":"chat.completion","created":5,"model":"m","choices":[{"index":0,"message":)"
           R"({"role":"assistant","content":"hi \"you\""},"logprobs":null,"finish_reason":"length"}],)"
           R"("usage":{"prompt_tokens":3,"completion_tokens":4,"total_tokens":7}})");
  const OpenAiWriter completion{OpenAiKind::completion, "1", 5, {}};
  CHECK(must(completion.whole(item_of("hi")))
        == R"({"id":"cmpl-1","object":"text_completion","created":5,"model":"m","choices":[{"index":0,"text":"hi",)"
           R"("logprobs":null,"finish_reason":"stop"}]})");
  CHECK(gpuactors::test::says(completion.whole(item_of("\xc3")), "is no UTF-8"));
  auto wrong = item_of("hi");
  wrong.outputs[0].data = Bytes::of(std::string{"no element"});
  CHECK(code_of(completion.whole(wrong)) == Errc::internal);
}

TEST_CASE("a NUL in a text of the model is written as JSON says it", "[serve]") {
  const std::string_view text{"a\0b", 3};
  const OpenAiWriter chat{OpenAiKind::chat, "1", 5, {}};
  CHECK(must(chat.whole(item_of(text))).find(R"("content":"a\u0000b")") != std::string::npos);
  OpenAiWriter completion{OpenAiKind::completion, "1", 5, {true, false}};
  CHECK(must(completion.event(item_of(text))).find(R"("text":"a\u0000b")") != std::string::npos);
}

TEST_CASE("a stream has an event for each item, the reason once, and the counts where they are wanted", "[serve]") {
  OpenAiWriter chat{OpenAiKind::chat, "1", 5, {true, true}};
  const std::string head = R"(data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":5,"model":"m",)";
  CHECK(must(chat.event(item_of("a")))
        == head
               + R"("choices":[{"index":0,"delta":{"role":"assistant","content":"a"},"logprobs":null,)"
                 R"("finish_reason":null}]})"
                 "\n\n");
  CHECK(must(chat.event(item_of("b", "stop", 3, 2)))
        == head
               + R"("choices":[{"index":0,"delta":{"content":"b"},"logprobs":null,"finish_reason":"stop"}]})"
                 "\n\n");
  CHECK(chat.end()
        == head
               + R"("choices":[],"usage":{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5}})"
                 "\n\ndata: [DONE]\n\n");
  // A model that says no reason has ended by itself.
  OpenAiWriter completion{OpenAiKind::completion, "1", 5, {true, false}};
  must(completion.event(item_of("a")));
  CHECK(completion.end().find(R"("text":"","logprobs":null,"finish_reason":"stop"}]})") != std::string::npos);
}

TEST_CASE("models, errors and paths are those of OpenAI", "[serve]") {
  CHECK(writes_texts(describe_talk()));
  const std::vector<std::string> names{"b"};
  CHECK(openai_models(names, 5)
        == R"({"object":"list","data":[{"id":"b","object":"model","created":5,"owned_by":"gpuactors"}]})");
  CHECK(openai_error(404, "no \"m\"")
        == R"({"error":{"message":"no \"m\"","type":"invalid_request_error","param":null,"code":404}})");
  CHECK(find_route("/v1/chat/completions")->endpoint == EndpointKind::chat_completions);
  CHECK(find_route("/v1/completions?a=b")->endpoint == EndpointKind::completions);
  CHECK(find_route("/v1/models")->endpoint == EndpointKind::openai_models);
  CHECK_FALSE(find_route("/v1/models/m").has_value());
  CHECK_FALSE(find_route("/v1").has_value());
}
