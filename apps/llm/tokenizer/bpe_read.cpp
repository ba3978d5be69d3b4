// Reading a vocabulary and its merges.
#include <apps/llm/tokenizer/bpe.hpp>
#include <apps/llm/tokenizer/fields.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace llm::tokenizer {

using gpuactors::Errc;
using gpuactors::fail;
using gpuactors::Result;
using Json = nlohmann::json;

namespace {

/// Refuses what would be merged otherwise.
Result<void> check_model(const Part& model) {
  GPUACTORS_TRY(allow_only(model, {"dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix",
                                   "fuse_unk", "byte_fallback", "ignore_merges", "vocab", "merges"}));
  const auto value = [&](const char* name) { return model.json->value(name, Json{}); };
  if (const auto dropout = value("dropout"); !dropout.is_null() && dropout != 0)
    return fail(Errc::unsupported, "the model in tokenizer.json has dropout: its tokens would differ by chance");
  for (const char* name : {"continuing_subword_prefix", "end_of_word_suffix"})
    if (const auto affix = value(name); !affix.is_null() && affix != "")
      return fail(Errc::unsupported,
                  fmt::format("the model in tokenizer.json has a {}, which is not known here", name));
  return {};
}

} // namespace

Result<Bpe> Bpe::read(const Json& file) {
  const auto found = file.find("model");
  if (found == file.end() || !found->is_object())
    return fail(Errc::invalid_argument, "tokenizer.json has no model");
  // Files from before there was a type are of this one.
  const auto type = found->value("type", std::string{"BPE"});
  if (type != "BPE")
    return fail(Errc::unsupported,
                fmt::format("the model in tokenizer.json is of the type {}; it is BPE", quote(type)));
  const Part model{&*found, "model", type};
  GPUACTORS_TRY(check_model(model));
  Bpe bpe;
  GPUACTORS_LET(fuses_unknown, read_flag(model, "fuse_unk", false));
  GPUACTORS_LET(has_fallback, read_flag(model, "byte_fallback", false));
  GPUACTORS_LET(ignores_merges, read_flag(model, "ignore_merges", false));
  bpe.fuses_unknown_ = fuses_unknown;
  bpe.has_fallback_ = has_fallback;
  bpe.ignores_merges_ = ignores_merges;
  GPUACTORS_TRY(bpe.read_vocabulary(*found));
  GPUACTORS_TRY(bpe.read_merges(*found));
  GPUACTORS_TRY(bpe.read_unknown(*found));
  for (std::size_t byte = 0; byte < bpe.bytes_.size(); ++byte)
    bpe.bytes_[byte] = bpe.find(fmt::format("<0x{:02X}>", byte)).value_or(-1);
  return bpe;
}

Result<void> Bpe::read_vocabulary(const Json& json) {
  const auto vocabulary = json.find("vocab");
  if (vocabulary == json.end() || !vocabulary->is_object() || vocabulary->empty())
    return fail(Errc::invalid_argument, "the model in tokenizer.json has no vocab that is an object of tokens");
  ids_.reserve(vocabulary->size());
  texts_.reserve(vocabulary->size());
  for (const auto& [token, id] : vocabulary->items()) {
    GPUACTORS_LET(number, read_id(id, quote(token)));
    const auto added = ids_.emplace(token, number).first;
    if (const auto [other, is_new] = texts_.emplace(number, added->first); !is_new)
      return fail(Errc::invalid_argument, fmt::format("{} and {} have the same ID {} in tokenizer.json",
                                                      quote(other->second), quote(token), number));
    end_ = std::max(end_, number + 1);
  }
  return {};
}

Result<void> Bpe::read_merges(const Json& json) {
  const auto merges = json.find("merges");
  if (merges == json.end() || !merges->is_array())
    return fail(Errc::invalid_argument, "the model in tokenizer.json has no list of merges");
  if (merges->size() > static_cast<std::size_t>(most_ids))
    return fail(Errc::invalid_argument,
                fmt::format("the model in tokenizer.json has {} merges; it has at most {}", merges->size(), most_ids));
  merges_.reserve(merges->size());
  // As text since 2019, as pairs since 2024: one form in a file.
  const bool is_text = !merges->empty() && merges->front().is_string();
  for (const auto& merge : *merges) {
    if (is_text && merge.is_string()) {
      const auto& text = merge.get_ref<const std::string&>();
      if (text.starts_with("#version"))
        continue;
      const auto space = text.find(' ');
      if (space == std::string::npos || text.find(' ', space + 1) != std::string::npos)
        return fail(Errc::invalid_argument,
                    fmt::format("a merge in tokenizer.json is {}; it is two tokens with a space", quote(text)));
      const auto view = std::string_view{text};
      GPUACTORS_TRY(add_merge(view.substr(0, space), view.substr(space + 1)));
    } else if (!is_text && merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string()) {
      GPUACTORS_TRY(add_merge(merge[0].get_ref<const std::string&>(), merge[1].get_ref<const std::string&>()));
    } else {
      return fail(Errc::invalid_argument,
                  fmt::format("a merge in tokenizer.json is {}; all are texts, or all are pairs of texts",
                              quote(merge.dump())));
    }
  }
  return {};
}

Result<void> Bpe::add_merge(std::string_view left, std::string_view right) {
  const auto first = find(left);
  const auto second = find(right);
  const auto both = find(fmt::format("{}{}", left, right));
  if (!first || !second || !both)
    return fail(
        Errc::invalid_argument,
        fmt::format("tokenizer.json merges {} and {}, which are no tokens, or become none", quote(left), quote(right)));
  // Of several, the last counts.
  merges_.insert_or_assign(pair_of(*first, *second), static_cast<std::int32_t>(merged_.size()));
  merged_.push_back(*both);
  return {};
}

Result<void> Bpe::read_unknown(const Json& json) {
  const auto unknown = json.find("unk_token");
  if (unknown == json.end() || unknown->is_null())
    return {};
  unknown_ = unknown->is_string() ? find(unknown->get_ref<const std::string&>()) : std::nullopt;
  if (!unknown_)
    return fail(Errc::invalid_argument, fmt::format("unk_token of the model in tokenizer.json is {}, which is no token "
                                                    "of its vocab",
                                                    quote(unknown->dump())));
  return {};
}

} // namespace llm::tokenizer
