// Joining texts of tokens step by step.
#include <apps/llm/tokenizer/byte_level.hpp>
#include <apps/llm/tokenizer/joiner.hpp>

#include <fmt/format.h>

#include <charconv>
#include <utility>

namespace llm::tokenizer {

using gpuactors::Errc;
using gpuactors::fail;
using gpuactors::Result;
using Json = nlohmann::json;

namespace {

Result<Joining::Step> read_joining_step(const Part& part) {
  using Step = Joining::Step;
  if (part.type == "Replace") {
    GPUACTORS_TRY(allow_only(part, {"pattern", "content"}));
    GPUACTORS_LET(pattern, Pattern::read(part));
    GPUACTORS_LET(text, read_text(part, "content"));
    if (pattern.is_regex())
      return fail(Errc::unsupported,
                  fmt::format("the {} in tokenizer.json has a regular expression, which is not known "
                              "here",
                              part.name));
    return Step{ReplaceIn{std::move(pattern), std::move(text)}};
  }
  if (part.type == "Strip") {
    GPUACTORS_TRY(allow_only(part, {"content", "start", "stop"}));
    GPUACTORS_LET(character, read_character(part, "content"));
    GPUACTORS_LET(start, read_count(part, "start"));
    GPUACTORS_LET(stop, read_count(part, "stop"));
    if (stop != 0)
      return fail(Errc::unsupported,
                  fmt::format("the {} in tokenizer.json has a stop of {}; it is 0 here", part.name, stop));
    return Step{StripBegin{character, start}};
  }
  if (part.type == "Metaspace") {
    GPUACTORS_LET(meta, Metaspace::read(part));
    return Step{Unmeta{meta.character, meta.scheme != Metaspace::Scheme::never}};
  }
  if (part.type == "ByteFallback") {
    GPUACTORS_TRY(allow_only(part, {}));
    return Step{ByteFallback{}};
  }
  return refuse_type(part, "ByteLevel, Replace, ByteFallback, Fuse, Strip, Metaspace and Sequence");
}

/// The byte that <0x41> and the like name. Others are read as Rust reads hexadecimal numbers: with a sign too.
std::optional<char> byte_of(std::string_view text) {
  if (text.size() != 6 || !text.starts_with("<0x") || text[5] != '>')
    return std::nullopt;
  auto digits = text.substr(3, 2);
  if (digits[0] == '+')
    digits.remove_prefix(1);
  unsigned byte = 0;
  const auto* end = digits.data() + digits.size();
  const auto [at, error] = std::from_chars(digits.data(), end, byte, 16);
  return error == std::errc{} && at == end ? std::optional{static_cast<char>(byte)} : std::nullopt;
}

std::string change(const ReplaceIn& step, std::string_view text) {
  Budget none;
  std::vector<Span> spans;
  // Only regular expressions could fail.
  (void)Search{step.pattern, none}.cover(text, spans);
  std::string changed;
  for (const auto& span : spans)
    changed += span.is_match ? std::string_view{step.text} : text.substr(span.begin, span.end - span.begin);
  return changed;
}

/// @param count how often it was removed before, and in the end.
std::string change(const StripBegin& step, std::string_view text, std::int64_t& count) {
  std::size_t begin = 0;
  while (count < step.most && begin < text.size()) {
    const auto character = character_at(text, begin);
    if (character.code != step.character) {
      count = step.most;
      break;
    }
    ++count;
    begin += character.bytes;
  }
  return std::string{text.substr(begin)};
}

std::string change(const Unmeta& step, std::string_view text, bool is_first) {
  std::string changed;
  for (std::size_t at = 0; at < text.size();) {
    const auto character = character_at(text, at);
    if (character.code != step.character)
      changed += text.substr(at, character.bytes);
    else if (!is_first || !step.drops_first)
      changed += ' ';
    at += character.bytes;
  }
  return changed;
}

} // namespace

Result<Joining> Joining::read(const Json& file) {
  GPUACTORS_LET(parts, read_parts(file, "decoder", "decoders"));
  Joining joining;
  const auto found = file.find("decoder");
  if (found == file.end() || found->is_null())
    joining.fusing_ = Fusing::with_spaces;
  bool is_whole = false;
  for (const auto& part : parts) {
    if (part.type == "Fuse") {
      GPUACTORS_TRY(allow_only(part, {}));
      is_whole = true;
      continue;
    }
    const bool is_bytes = part.type == "ByteLevel";
    if (is_whole && (is_bytes || part.type == "ByteFallback"))
      return fail(Errc::unsupported,
                  fmt::format("the {} in tokenizer.json comes after Fuse or ByteLevel: it would need "
                              "the whole text",
                              part.name));
    if (is_bytes) {
      GPUACTORS_TRY(allow_only(part, {"add_prefix_space", "trim_offsets", "use_regex"}));
      joining.fusing_ = Fusing::as_bytes;
      is_whole = true;
      continue;
    }
    GPUACTORS_LET(step, read_joining_step(part));
    const auto* replace = std::get_if<ReplaceIn>(&step);
    if (is_whole && replace != nullptr && !replace->pattern.is_character())
      return fail(Errc::unsupported,
                  fmt::format("the {} in tokenizer.json comes after Fuse or ByteLevel and is of more "
                              "than one character: it would need the whole text",
                              part.name));
    (is_whole ? joining.of_whole_ : joining.of_texts_).push_back(std::move(step));
  }
  return joining;
}

Joiner::Joiner(const Joining& joining, Begins begins)
  : joining_(&joining), of_texts_(joining.of_texts().size()), of_whole_(joining.of_whole().size()),
    has_text_(begins == Begins::continuation) {
  if (begins == Begins::text)
    return;
  // What is done at the beginning of a text was done there.
  for (std::size_t step = 0; step < of_texts_.size(); ++step)
    if (std::holds_alternative<Unmeta>(joining.of_texts()[step]))
      of_texts_[step].count = 1;
  for (std::size_t step = 0; step < of_whole_.size(); ++step)
    if (const auto* strip = std::get_if<StripBegin>(&joining.of_whole()[step]))
      of_whole_[step].count = strip->most;
}

std::string Joiner::take(std::string_view token) {
  give(0, std::string{token});
  return change_whole(std::exchange(out_, {}));
}

std::string Joiner::finish() {
  for (std::size_t step = 0; step < of_texts_.size(); ++step)
    end_run(step);
  bytes_.finish(out_);
  return change_whole(std::exchange(out_, {}));
}

void Joiner::give(std::size_t step, std::string text) {
  if (step == of_texts_.size()) {
    fuse(text);
    return;
  }
  auto& state = of_texts_[step];
  const auto& how = joining_->of_texts()[step];
  if (std::holds_alternative<ByteFallback>(how)) {
    if (const auto byte = byte_of(text)) {
      give_byte(step, *byte);
      return;
    }
    end_run(step);
  } else if (const auto* replace = std::get_if<ReplaceIn>(&how)) {
    text = change(*replace, text);
  } else if (const auto* strip = std::get_if<StripBegin>(&how)) {
    std::int64_t count = 0;
    text = change(*strip, text, count);
  } else if (const auto* meta = std::get_if<Unmeta>(&how)) {
    text = change(*meta, text, state.count == 0);
    state.count = 1;
  }
  give(step + 1, std::move(text));
}

void Joiner::give_byte(std::size_t step, char byte) {
  auto& state = of_texts_[step];
  state.bytes += byte;
  if (!state.is_wrong) {
    const auto sequence = sequence_at(std::string_view{state.bytes}.substr(state.whole));
    if (sequence.kind == Sequence::Kind::whole)
      state.whole += sequence.bytes;
    state.is_wrong = sequence.kind == Sequence::Kind::wrong;
  }
  if (!state.is_wrong)
    return;
  const auto count = std::exchange(state.bytes, {}).size();
  for (std::size_t i = 0; i < count; ++i)
    give(step + 1, std::string{replacement});
}

void Joiner::end_run(std::size_t step) {
  auto& state = of_texts_[step];
  const auto run = std::exchange(state.bytes, {});
  const bool is_text = std::exchange(state.whole, 0) == run.size();
  state.is_wrong = false;
  if (run.empty())
    return;
  if (is_text)
    give(step + 1, run);
  for (std::size_t i = 0; i < run.size() && !is_text; ++i)
    give(step + 1, std::string{replacement});
}

void Joiner::fuse(std::string_view text) {
  if (joining_->fusing() == Joining::Fusing::as_bytes) {
    const auto bytes = bytes_of_byte_level(text);
    bytes_.take(bytes ? std::string_view{*bytes} : text, out_);
    return;
  }
  if (joining_->fusing() == Joining::Fusing::with_spaces && has_text_)
    out_ += ' ';
  has_text_ = true;
  out_ += text;
}

std::string Joiner::change_whole(std::string text) {
  for (std::size_t step = 0; step < of_whole_.size(); ++step) {
    const auto& how = joining_->of_whole()[step];
    if (const auto* replace = std::get_if<ReplaceIn>(&how))
      text = change(*replace, text);
    else if (const auto* strip = std::get_if<StripBegin>(&how))
      text = change(*strip, text, of_whole_[step].count);
    else if (const auto* meta = std::get_if<Unmeta>(&how))
      text = change(*meta, text, true);
  }
  return text;
}

} // namespace llm::tokenizer
