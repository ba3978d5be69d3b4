#include <apps/llm/answer.hpp>

#include <algorithm>
#include <limits>
#include <utility>

namespace llm {

namespace v1 = gpuactors::v1;

namespace {

void add_text(v1::GenerateReply& item, std::string_view name, std::string_view text) {
  auto& output = *item.add_outputs();
  output.set_name(std::string{name});
  output.add_shape(1);
  const auto size = static_cast<std::uint32_t>(text.size());
  output.set_data(&size, sizeof(size));
  output.mutable_data()->append(text);
}

void add_number(v1::GenerateReply& item, std::string_view name, std::int64_t number) {
  auto& output = *item.add_outputs();
  output.set_name(std::string{name});
  output.add_shape(1);
  const auto value =
      static_cast<std::int32_t>(std::min<std::int64_t>(number, std::numeric_limits<std::int32_t>::max()));
  output.set_data(&value, sizeof(value));
}

void describe_one(v1::ReplicaTensor& tensor, std::string_view name, const char* datatype, std::int64_t size) {
  tensor.set_name(std::string{name});
  tensor.set_datatype(datatype);
  tensor.add_shape(size);
}

} // namespace

void describe_io(v1::ReplicaDescription& description, bool as_texts) {
  for (auto* tensor : {description.add_inputs(), description.add_outputs()})
    if (as_texts)
      describe_one(*tensor, text_name, "BYTES", 1);
    else
      describe_one(*tensor, tokens_name, "INT32", -1);
  describe_one(*description.add_outputs(), reason_name, "BYTES", 1);
  if (as_texts)
    for (const auto name : {prompt_count_name, completion_count_name})
      describe_one(*description.add_outputs(), name, "INT32", 1);
}

Answer::Answer(std::span<const std::int32_t> ends) : ends_(ends) {
  // nop
}

Answer::Answer(std::span<const std::int32_t> ends, TextOfTokens joiner, std::vector<std::string> stops,
               std::int64_t given)
  : ends_(ends), texts_(Texts{std::move(joiner), StopTexts{std::move(stops)}, given, 0}) {
  // nop
}

Answer::Step Answer::take(const Chosen& chosen) {
  const auto at_end = std::find(ends_.begin(), ends_.end(), chosen.token) != ends_.end();
  if (texts_)
    return take_text(chosen, at_end);
  Step step{v1::GenerateReply{}, at_end || chosen.is_last, !at_end};
  if (!at_end)
    add_number(*step.item, tokens_name, chosen.token);
  if (step.ended)
    add_text(*step.item, reason_name, at_end ? "stop" : "length");
  return step;
}

Answer::Step Answer::take_text(const Chosen& chosen, bool at_end) {
  auto& [joiner, stops, given, written] = *texts_;
  ++written;
  StopTexts::Passed passed;
  if (!at_end)
    passed = stops.take(joiner.take(chosen.token));
  if (!passed.ended && (at_end || chosen.is_last)) {
    const auto last = stops.take(joiner.finish());
    passed.text += last.text;
    passed.ended = last.ended;
    if (!last.ended)
      passed.text += std::move(stops).rest();
  }
  Step step{std::nullopt, passed.ended || at_end || chosen.is_last, !at_end};
  if (passed.text.empty() && !step.ended)
    return step;
  add_text(step.item.emplace(), text_name, passed.text);
  if (step.ended) {
    add_text(*step.item, reason_name, passed.ended || at_end ? "stop" : "length");
    add_number(*step.item, prompt_count_name, given);
    add_number(*step.item, completion_count_name, written);
  }
  return step;
}

} // namespace llm
