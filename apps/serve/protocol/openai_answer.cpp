#include <gpuactors/base/utf8.hpp>

#include <apps/serve/cut_text.hpp>
#include <apps/serve/protocol/openai.hpp>
#include <apps/serve/protocol/tensor_rules.hpp>

#include <fmt/format.h>
#include <simdjson.h>

#include <cstring>
#include <utility>

namespace serve {

using gpuactors::Errc;
using gpuactors::fail;
using gpuactors::Result;

namespace {

/// The one text of an output.
Result<std::string_view> text_of(const NamedTensor& output) {
  auto data = output.data.view();
  const auto text = output.type == DataType::bytes ? take_bytes_element(data) : std::nullopt;
  if (!text || !data.empty())
    return fail(Errc::internal, fmt::format("the model answered \"{}\" that is not one text", output.name));
  const std::string_view characters{reinterpret_cast<const char*>(text->data()), text->size()};
  // With NUL, which JSON can say.
  if (!simdjson::validate_utf8(characters.data(), characters.size()))
    return fail(Errc::internal,
                fmt::format("the model answered \"{}\" that is no UTF-8, as JSON needs it", output.name));
  return characters;
}

Result<std::int64_t> count_of(const NamedTensor& output) {
  std::int32_t count = 0;
  if (output.type != DataType::int32 || output.data.size() != sizeof count)
    return fail(Errc::internal, fmt::format("the model answered \"{}\" that is not one INT32", output.name));
  std::memcpy(&count, output.data.view().data(), sizeof count);
  return count;
}

} // namespace

OpenAiWriter::OpenAiWriter(OpenAiKind kind, std::string id, std::int64_t created, OpenAiWishes wishes)
  : kind_(kind), id_((kind == OpenAiKind::chat ? "chatcmpl-" : "cmpl-") + std::move(id)), created_(created),
    wishes_(wishes) {
  // nop
}

Result<OpenAiWriter::Item> OpenAiWriter::item_of(const InferReply& reply) {
  Item item;
  for (const auto& output : reply.outputs) {
    if (output.name == text_tensor) {
      GPUACTORS_LET(text, text_of(output));
      item.text = text;
    } else if (output.name == finish_reason_tensor) {
      GPUACTORS_LET(reason, text_of(output));
      item.finish_reason = reason;
    } else if (output.name == prompt_tokens_tensor) {
      GPUACTORS_LET(count, count_of(output));
      item.counts.prompt = count;
    } else if (output.name == completion_tokens_tensor) {
      GPUACTORS_LET(count, count_of(output));
      item.counts.completion = count;
    }
  }
  return item;
}

void OpenAiWriter::write_head(JsonText& json, std::string_view object, std::string_view model) const {
  json.object().key("id").value(id_).key("object").value(object).key("created").value(created_);
  json.key("model").value(model);
}

void OpenAiWriter::write_choice(JsonText& json, const Item& item, bool is_event) const {
  json.key("choices").array().object().key("index").value(0);
  if (kind_ == OpenAiKind::chat) {
    json.key(is_event ? "delta" : "message").object();
    if (!begun_)
      json.key("role").value("assistant");
    json.key("content").value(item.text).close();
  } else {
    json.key("text").value(item.text);
  }
  const auto reason = item.finish_reason.empty() && !is_event ? std::string_view{"stop"} : item.finish_reason;
  json.key("logprobs").value_by([](std::string& text) { text += "null"; });
  json.key("finish_reason").value_by([reason](std::string& text) {
    if (reason.empty())
      text += "null";
    else
      append_quoted(text, reason);
  });
  json.close().close();
}

void OpenAiWriter::write_usage(JsonText& json, const Counts& counts) {
  if (counts.prompt < 0 || counts.completion < 0)
    return; // the model does not count
  json.key("usage").object().key("prompt_tokens").value(counts.prompt);
  json.key("completion_tokens").value(counts.completion);
  json.key("total_tokens").value(counts.prompt + counts.completion).close();
}

Result<std::string> OpenAiWriter::whole(const InferReply& reply) const {
  GPUACTORS_LET(item, item_of(reply));
  JsonText json;
  write_head(json, kind_ == OpenAiKind::chat ? "chat.completion" : "text_completion", reply.model);
  write_choice(json, item, false);
  write_usage(json, item.counts);
  json.close();
  return std::move(json).take();
}

Result<std::string> OpenAiWriter::event(const InferReply& reply) {
  GPUACTORS_LET(item, item_of(reply));
  model_ = reply.model;
  JsonText json;
  write_head(json, kind_ == OpenAiKind::chat ? "chat.completion.chunk" : "text_completion", model_);
  write_choice(json, item, true);
  json.close();
  begun_ = true;
  finished_ = finished_ || !item.finish_reason.empty();
  if (item.counts.prompt >= 0)
    counts_ = item.counts;
  return event_text(std::move(json).take());
}

std::string OpenAiWriter::end() const {
  std::string text;
  const auto* object = kind_ == OpenAiKind::chat ? "chat.completion.chunk" : "text_completion";
  if (!finished_) {
    // A model that does not say why it has ended has ended by itself.
    JsonText json;
    write_head(json, object, model_);
    write_choice(json, {{}, "stop", {}}, true);
    json.close();
    text += event_text(std::move(json).take());
  }
  if (wishes_.include_usage) {
    JsonText json;
    write_head(json, object, model_);
    json.key("choices").array().close();
    write_usage(json, counts_);
    json.close();
    text += event_text(std::move(json).take());
  }
  return text + "data: [DONE]\n\n";
}

std::string openai_error(int status, std::string_view sentence) {
  JsonText json;
  json.object().key("error").object().key("message").value(gpuactors::to_utf8(cut_text(sentence, longest_sentence)));
  json.key("type").value(status < 500 ? "invalid_request_error" : "server_error");
  json.key("param").value_by([](std::string& text) { text += "null"; });
  json.key("code").value(status).close().close();
  return std::move(json).take();
}

std::string openai_models(std::span<const std::string> names, std::int64_t created) {
  JsonText json;
  json.object().key("object").value("list").key("data").array();
  for (const auto& name : names) {
    json.object().key("id").value(name).key("object").value("model").key("created").value(created);
    json.key("owned_by").value("gpuactors").close();
  }
  json.close().close();
  return std::move(json).take();
}

} // namespace serve
