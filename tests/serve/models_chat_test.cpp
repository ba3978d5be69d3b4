// What a generative model says of itself, and requests that do not fit it.
#include "models_chat.hpp"

#include <apps/serve/models/request_check.hpp>

#include <functional>

using namespace serve;
using namespace serve::test;
using gpuactors::Errc;

TEST_CASE("a request that does not fit a generative model is refused with what it takes", "[serve]") {
  const auto refused = [](const InferRequest& request, const std::string& words) {
    const auto fits = check_generation(request, chat_facts());
    CHECK(code_of(fits) == Errc::invalid_argument);
    CHECK(says(fits, words));
  };
  must(check_generation(prompt("a"), chat_facts()));
  auto request = prompt("a");
  request.inputs.clear();
  refused(request, "model chat has one input, \"text\", and the request has 0");
  request = prompt("a");
  request.inputs[0].type = DataType::int32;
  refused(request, "takes \"text\" as BYTES, not as INT32");
  request = prompt("a");
  request.inputs[0].shape = {1, 1};
  refused(request, "takes \"text\" in the shape [1], not [1,1]");
  request = prompt("a");
  request.inputs[0].data = Bytes::of(std::string{"\5\0\0\0a", 5});
  refused(request, "input \"text\" has 5 bytes, which end within element 0 of 1");
  request = prompt("a");
  request.outputs = {"words"};
  refused(request, "has no output \"words\"");
  refused(prompt(std::string(4U << 20, 'a')), "takes requests of up to 4194304 bytes");
  request = prompt("a");
  request.parameters["long"] = std::string(4U << 20, 'a');
  refused(request, "takes requests of up to 4194304 bytes");
}

TEST_CASE("what a generative replica says of itself must make sense", "[serve]") {
  const auto refused = [](const std::function<void(wire::ReplicaDescription&)>& spoil, const std::string& words) {
    auto description = chat_description();
    spoil(description);
    const auto facts = read_facts(description, true);
    CHECK(code_of(facts) == Errc::invalid_argument);
    CHECK(says(facts, words));
  };
  CHECK(chat_facts().outputs[1].shape_for_clients() == std::vector<std::int64_t>{-1});
  refused([](auto& it) { it.mutable_inputs(0)->add_row_shape(1); }, "has a row_shape: a generative model has no rows");
  refused([](auto& it) { it.mutable_inputs(0)->set_shape(0, 0); }, "at least 1, or -1 for any size");
  refused([](auto& it) { it.mutable_inputs(0)->set_shape(0, -2); }, "at least 1, or -1 for any size");
  refused([](auto& it) { it.mutable_inputs(0)->mutable_shape()->Resize(9, 1); }, "has 9 dimensions: at most 8");
  refused([](auto& it) { it.mutable_inputs(0)->set_name("parameters"); }, "means something else over HTTP");
  refused([](auto& it) { it.mutable_outputs(0)->set_name("error"); }, "means something else over HTTP");
  refused([](auto& it) { it.clear_outputs(); }, "it has 0 outputs");
  refused([](auto& it) { it.set_max_running(-1); }, "it runs up to -1 requests at once");
  auto rows = chat_description();
  CHECK(says(read_facts(rows), "has a shape: a model with the method \"infer\" has rows"));
  auto other = chat_description();
  other.set_max_running(3);
  CHECK(says(check_same(chat_facts(), other), "up to 3 requests at once, and not"));
  // What it was loaded from has changed since the first one was.
  auto changed = chat_description();
  changed.set_fingerprint("b");
  CHECK(says(check_same(chat_facts(), changed), "fingerprint \"b\", and not \"\""));
  CHECK(read_facts(changed, true)->fingerprint == "b");
  changed.set_fingerprint(std::string(129, 'x'));
  CHECK(says(read_facts(changed, true), "a fingerprint of 129 bytes: at most 128 are allowed"));
}
