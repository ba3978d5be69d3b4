// Reading TemplateProcessing for a single text.
#include <apps/llm/tokenizer/fields.hpp>
#include <apps/llm/tokenizer/template.hpp>

#include <fmt/format.h>

#include <algorithm>

namespace llm::tokenizer {

using gpuactors::Errc;
using gpuactors::fail;
using gpuactors::Failure;
using gpuactors::Result;
using Json = nlohmann::json;

namespace {

constexpr std::size_t most_pieces = 64;

Failure wrong_template(const Part& part, const Json& piece) {
  return fail(Errc::invalid_argument,
              fmt::format("a piece of the {} in tokenizer.json is {}; it is a SpecialToken that special_tokens has, or "
                          "the Sequence A",
                          part.name, quote(piece.dump())));
}

/// Adds the IDs of a special token.
Result<void> add_special(const Part& part, const Json& piece, std::vector<std::int32_t>& pieces) {
  const auto& id = piece.at("SpecialToken").at("id").get_ref<const std::string&>();
  const auto tokens = part.json->value("special_tokens", Json::object());
  const auto found = tokens.is_object() ? tokens.find(id) : tokens.end();
  if (found == tokens.end() || !found->is_object() || !found->contains("ids") || !(*found)["ids"].is_array())
    return wrong_template(part, piece);
  for (const auto& one : (*found)["ids"]) {
    GPUACTORS_LET(number, read_id(one, quote(id)));
    pieces.push_back(number);
    if (pieces.size() > most_pieces)
      return fail(Errc::invalid_argument,
                  fmt::format("the {} in tokenizer.json has more than {} tokens", part.name, most_pieces));
  }
  return {};
}

bool has_id(const Json& piece, const char* kind) {
  return piece.is_object() && piece.size() == 1 && piece.contains(kind) && piece[kind].is_object()
         && piece[kind].contains("id") && piece[kind]["id"].is_string();
}

} // namespace

Result<Template> Template::read(const Json& file) {
  GPUACTORS_LET(parts, read_parts(file, "post_processor", "processors"));
  Template whole;
  bool has_template = false;
  for (const auto& part : parts) {
    if (part.type == "ByteLevel") {
      // It changes positions in the text only, which are not told here.
      GPUACTORS_TRY(allow_only(part, {"add_prefix_space", "trim_offsets", "use_regex"}));
      continue;
    }
    if (part.type != "TemplateProcessing" || has_template)
      return refuse_type(part, "TemplateProcessing (one at most), ByteLevel and Sequence");
    GPUACTORS_TRY(allow_only(part, {"single", "pair", "special_tokens"}));
    const auto single = part.json->value("single", Json{});
    if (!single.is_array() || single.size() > most_pieces)
      return fail(
          Errc::invalid_argument,
          fmt::format("the {} in tokenizer.json has no list single of at most {} pieces", part.name, most_pieces));
    has_template = true;
    whole.pieces_.clear();
    for (const auto& piece : single) {
      if (has_id(piece, "SpecialToken"))
        GPUACTORS_TRY(add_special(part, piece, whole.pieces_));
      else if (has_id(piece, "Sequence") && piece["Sequence"]["id"] == "A")
        whole.pieces_.push_back(text);
      else
        return wrong_template(part, piece);
    }
    if (std::count(whole.pieces_.begin(), whole.pieces_.end(), text) != 1)
      return fail(Errc::unsupported, fmt::format("the {} in tokenizer.json has the text not once", part.name));
  }
  return whole;
}

std::vector<std::int32_t> Template::apply(std::vector<std::int32_t> tokens, bool adds_special) const {
  if (!adds_special || pieces_.size() == 1)
    return tokens;
  const auto at = std::find(pieces_.begin(), pieces_.end(), text);
  tokens.insert(tokens.begin(), pieces_.begin(), at);
  tokens.insert(tokens.end(), at + 1, pieces_.end());
  return tokens;
}

std::vector<std::int32_t> Template::special() const {
  auto tokens = pieces_;
  std::erase(tokens, text);
  return tokens;
}

} // namespace llm::tokenizer
