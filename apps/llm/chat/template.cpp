// Reading and rendering, put together.
#include <apps/llm/chat/evaluator.hpp>
#include <apps/llm/chat/json.hpp>
#include <apps/llm/chat/parser.hpp>
#include <apps/llm/chat/scopes.hpp>
#include <apps/llm/chat/template.hpp>
#include <apps/llm/chat/text.hpp>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace llm {

using gpuactors::Errc;
using gpuactors::fail;
using gpuactors::Result;

namespace {

template <class Json>
Result<std::string> render_program(const chat::Program& program, const Json& json, const RenderOptions& options) {
  if (!json.is_object())
    return fail(Errc::invalid_argument, "the variables of a chat template are no JSON object");
  chat::Budget budget{options.steps, options.made_bytes};
  chat::Surroundings surroundings;
  surroundings.now = options.now;
  const auto variables = chat::from_json(budget, json);
  if (!variables)
    return fail(variables.error().code(), "the chat template " + variables.error().message());
  chat::Evaluator evaluator{program, *variables->entries(), budget, surroundings, options.output_bytes};
  auto text = evaluator.run();
  if (text || surroundings.was_raised)
    return text;
  return fail(text.error().code(),
              fmt::format("the chat template, in line {}, {}", evaluator.line(), text.error().message()));
}

} // namespace

Result<ChatTemplate> ChatTemplate::parse(std::string_view text) {
  if (text.size() > most_bytes)
    return fail(Errc::invalid_argument,
                fmt::format("a chat template has {} bytes; it has {} at most", text.size(), most_bytes));
  if (!chat::is_text(text))
    return fail(Errc::invalid_argument, "a chat template is not UTF-8");
  GPUACTORS_LET(program, chat::read_program(text));
  GPUACTORS_TRY(chat::find_places(program));
  return ChatTemplate{std::make_shared<const chat::Program>(std::move(program))};
}

Result<std::string> ChatTemplate::render(const nlohmann::ordered_json& variables, const RenderOptions& options) const {
  return render_program(*program_, variables, options);
}

Result<std::string> ChatTemplate::render(const nlohmann::json& variables, const RenderOptions& options) const {
  return render_program(*program_, variables, options);
}

} // namespace llm
