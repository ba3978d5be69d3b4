#include <apps/serve/http/generation_form.hpp>
#include <apps/serve/protocol/generate_json.hpp>
#include <apps/serve/protocol/json_text.hpp>
#include <apps/serve/protocol/openai.hpp>
#include <apps/serve/protocol/status.hpp>

#include <fmt/format.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>
#include <random>
#include <utility>

namespace serve {

using gpuactors::Error;
using gpuactors::Result;

namespace {

/// The path names the model, and whether the answer is a stream.
class GenerateForm final : public GenerationForm {
public:
  explicit GenerateForm(bool streams) : streams_(streams) {
    // nop
  }

  Result<void> find_model(const Bytes& /*body*/, Route& /*route*/) override {
    return {};
  }

  SequenceStep find_sequence(const Bytes& body) override {
    return serve::find_sequence(body);
  }

  Result<InferRequest> read(const Bytes& body, const ModelDescription& model) override {
    return read_generation(body, model);
  }

  [[nodiscard]] bool streams() const override {
    return streams_;
  }

  Result<std::string> whole(const InferReply& reply, HeldShare& share) override {
    return write_generation(reply, share);
  }

  Result<std::string> event(const InferReply& reply, HeldShare& share) override {
    GPUACTORS_LET(json, write_generation(reply, share));
    return event_text(json);
  }

  std::string end() override {
    return {};
  }

  std::string error_event(const Error& error) override {
    return event_text(error_document(error.message()));
  }

  HttpAnswer refusal(int status, std::string_view sentence) override {
    return serve::refusal(status, sentence);
  }

private:
  bool streams_;
};

/// A name for an answer that no other one has.
std::string next_id() {
  static const std::uint32_t start = std::random_device{}();
  static std::atomic<std::uint64_t> count{0};
  return fmt::format("{:08x}{:012x}", start, ++count);
}

std::int64_t seconds_since_epoch() {
  return std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch()).count();
}

/// The body names the model, and says whether the answer is a stream.
class OpenAiForm final : public GenerationForm {
public:
  explicit OpenAiForm(OpenAiKind kind) : kind_(kind) {
    // nop
  }

  Result<void> find_model(const Bytes& body, Route& route) override {
    GPUACTORS_LET(model, find_openai_model(body));
    route.model = std::move(model);
    return {};
  }

  SequenceStep find_sequence(const Bytes& /*body*/) override {
    return {};
  }

  Result<InferRequest> read(const Bytes& body, const ModelDescription& model) override {
    GPUACTORS_LET(request, read_openai(kind_, body, model, wishes_));
    writer_.emplace(kind_, next_id(), seconds_since_epoch(), wishes_);
    return std::move(request);
  }

  [[nodiscard]] bool streams() const override {
    return wishes_.stream;
  }

  // Its texts are few bytes beside what a model may answer.
  Result<std::string> whole(const InferReply& reply, HeldShare& /*share*/) override {
    return writer_->whole(reply);
  }

  Result<std::string> event(const InferReply& reply, HeldShare& /*share*/) override {
    return writer_->event(reply);
  }

  std::string end() override {
    return writer_->end();
  }

  std::string error_event(const Error& error) override {
    return event_text(openai_error(http_status(error.code()), error.message()));
  }

  HttpAnswer refusal(int status, std::string_view sentence) override {
    HttpAnswer answer;
    answer.status = status;
    answer.text = openai_error(status, sentence);
    return answer;
  }

private:
  OpenAiKind kind_;
  OpenAiWishes wishes_;
  std::optional<OpenAiWriter> writer_;
};

} // namespace

std::unique_ptr<GenerationForm> form_of(EndpointKind endpoint) {
  if (endpoint == EndpointKind::completions)
    return std::make_unique<OpenAiForm>(OpenAiKind::completion);
  if (endpoint == EndpointKind::chat_completions)
    return std::make_unique<OpenAiForm>(OpenAiKind::chat);
  return std::make_unique<GenerateForm>(endpoint == EndpointKind::generate_stream);
}

} // namespace serve
