// A generative model as tests describe it: a text to a stream of texts, with tokens.
#pragma once

#include "models_fixture.hpp"

#include <apps/serve/models/model_facts.hpp>
#include <apps/serve/protocol/tensor_rules.hpp>

#include <string>

namespace serve::test {

inline wire::ReplicaDescription chat_description() {
  wire::ReplicaDescription description;
  auto& input = *description.add_inputs();
  input.set_name("text");
  input.set_datatype("BYTES");
  input.add_shape(1);
  auto& text = *description.add_outputs();
  text.set_name("text");
  text.set_datatype("BYTES");
  text.add_shape(1);
  auto& tokens = *description.add_outputs();
  tokens.set_name("tokens");
  tokens.set_datatype("INT32");
  tokens.add_shape(-1);
  return description;
}

inline ModelFacts chat_facts() {
  auto facts = must(read_facts(chat_description(), true));
  facts.name = "chat";
  facts.version = "1";
  facts.title = title_of("chat", "1");
  return facts;
}

inline InferRequest prompt(const std::string& text) {
  InferRequest request;
  request.model = "chat";
  request.id = text;
  std::string element;
  append_bytes_element(element, text);
  request.inputs.push_back({"text", DataType::bytes, {1}, Bytes::of(std::move(element))});
  return request;
}

} // namespace serve::test
