// Tokenizers for tests: those of tests/data/llm/tokenizers, and small ones that are made from parts.
#pragma once

#include <apps/llm/tokenizer/tokenizer.hpp>
#include <support/results.hpp>

#include <nlohmann/json.hpp>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <string>
#include <vector>

namespace llm::test {

inline nlohmann::json read_json(const std::string& name) {
  const char* elsewhere = std::getenv("LLM_TEST_DATA");
  std::ifstream input{std::filesystem::path{elsewhere != nullptr ? elsewhere : LLM_TEST_DATA} / "tokenizers" / name};
  auto json = nlohmann::json::parse(input, nullptr, false);
  if (json.is_discarded())
    FAIL("there is no JSON in " << name);
  return json;
}

inline Tokenizer make_tokenizer(const nlohmann::json& file) {
  return gpuactors::test::must(read_tokenizer(file.dump()));
}

/// A file of these tokens, whose numbers are their places, with nothing else but merges.
inline nlohmann::json file_of(const std::vector<std::string>& tokens,
                              std::initializer_list<std::pair<std::string, std::string>> merges = {}) {
  auto vocab = nlohmann::json::object();
  for (const auto& token : tokens)
    vocab[token] = vocab.size();
  auto list = nlohmann::json::array();
  for (const auto& [left, right] : merges)
    list.push_back({left, right});
  return {{"version", "1.0"}, {"model", {{"type", "BPE"}, {"vocab", vocab}, {"merges", list}}}};
}

inline nlohmann::json added_token(int id, const std::string& content, bool is_special = true) {
  return {{"id", id},        {"content", content},    {"single_word", false}, {"lstrip", false},
          {"rstrip", false}, {"special", is_special}, {"normalized", false}};
}

} // namespace llm::test
