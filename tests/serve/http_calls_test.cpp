// Requests of HTTP once they have been read, without sockets: where they are looked at, and what that may take.
#include "requests.hpp"
#include "test_service.hpp"

#include <apps/serve/http/generation.hpp>
#include <apps/serve/http/inference.hpp>
#include <support/catch.hpp>

#include <future>
#include <memory>
#include <string>
#include <utility>

using namespace serve;
using namespace serve::test;

namespace {

struct HttpCalls {
  explicit HttpCalls(FrontLimits limits = {}) {
    FrontOptions options;
    options.limits = limits;
    state = std::make_shared<FrontState>(service, std::move(options), Tokens{});
  }

  ~HttpCalls() {
    state->heavy.end();
  }

  [[nodiscard]] HttpAnswer infer(const std::string& model, const Bytes& body, std::optional<std::size_t> json = {}) {
    HttpHead head;
    if (json)
      head.inference_header_bytes = std::to_string(*json);
    return answer_of([&](HttpApi::Done done) {
      return infer_over_http(state, head, {}, *find_route("/v2/models/" + model + "/infer"), body, std::move(done));
    });
  }

  [[nodiscard]] HttpAnswer ask(const std::string& path, const Bytes& body) {
    return answer_of(
        [&](HttpApi::Done done) { return generate_over_http(state, {}, *find_route(path), body, std::move(done)); });
  }

  TestService service;
  std::shared_ptr<FrontState> state;

private:
  template <class Ask>
  static HttpAnswer answer_of(Ask ask) {
    const auto answered = std::make_shared<std::promise<HttpAnswer>>();
    const auto ticket = ask([answered](HttpAnswer answer) { answered->set_value(std::move(answer)); });
    return answered->get_future().get();
  }
};

FrontLimits holding(std::size_t bytes) {
  FrontLimits limits;
  limits.held_bytes = bytes;
  return limits;
}

/// A body of JSON and `bytes` zeros behind it: floats, or as many texts without a character as fit.
std::pair<Bytes, std::size_t> raw_body(const std::string& name, const std::string& type, std::size_t bytes) {
  auto text = R"({"inputs":[{"name":")" + name + R"(","datatype":")" + type + R"(","shape":[)"
              + std::to_string(bytes / 4) + R"(],"parameters":{"binary_data_size":)" + std::to_string(bytes)
              + R"(}}],"parameters":{"binary_data_output":true}})";
  const auto json = text.size();
  text.append(bytes, '\0');
  return {body_of(text), json};
}

} // namespace

TEST_CASE("many texts are not looked at on the thread of all connections, and as many numbers are", "[serve]") {
  HttpCalls calls;
  // What should be looked at elsewhere is refused.
  calls.state->heavy.end();
  constexpr std::size_t large = 2U << 20;
  for (const auto* name : {"BYTES", "\\u0042YTES"}) {
    const auto [texts, json] = raw_body("text", name, large);
    CHECK(calls.infer("echo", texts, json).status == 503);
  }
  CHECK(calls.infer("echo", body_of(std::string(large, '\0')), 0).status == 503);
  const auto [few, few_json] = raw_body("text", "BYTES", 400);
  CHECK(calls.infer("echo", few, few_json).status == 200);
  const auto [numbers, json] = raw_body("v", "FP32", large);
  CHECK(calls.infer("echo", numbers, json).status == 200);
}

TEST_CASE("what reading JSON takes is counted while it is read, and given back", "[serve]") {
  // Where it is read, it is found to end too early.
  auto floats = R"({"inputs":[{"name":"v","datatype":"FP32","shape":[1000000],"data":[1)";
  std::string infer{floats};
  std::string generate{R"({"x":[1)"};
  for (int i = 0; i < 500'000; ++i) {
    infer += ",1";
    generate += ",1";
  }
  for (const auto& [held, status] : {std::pair{std::size_t{4} << 20, 503}, std::pair{std::size_t{16} << 20, 400}}) {
    HttpCalls calls{holding(held)};
    CHECK(calls.infer("echo", body_of(infer)).status == status);
    for (const auto* path : {"/v2/models/line/generate", "/v2/models/line/generate_stream", "/v1/completions"})
      CHECK(calls.ask(path, body_of(generate)).status == status);
    calls.state->heavy.end();
    CHECK(calls.state->held->now() == 0);
  }
}

TEST_CASE("a request to a generative model that is larger than any it takes is not read", "[serve]") {
  FrontLimits limits;
  limits.generative_request_bytes = 1'000;
  HttpCalls calls{limits};
  CHECK(calls.ask("/v2/models/talk/generate", body_of(std::string(1'000, '{'))).status == 400);
  const auto refused = calls.ask("/v2/models/talk/generate", body_of(std::string(1'001, '{')));
  CHECK(refused.status == 413);
  CHECK(refused.text.find("at most 1000 bytes") != std::string::npos);
  CHECK(calls.ask("/v2/models/line/generate", body_of(std::string(1'001, '{'))).status == 400);
}
