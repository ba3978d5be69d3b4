// How a path whose answers are streams reads requests and writes answers.
#pragma once

#include <apps/serve/http/api.hpp>

#include <memory>
#include <string>
#include <string_view>

namespace serve {

/// Of one request; one thread at a time.
class GenerationForm {
public:
  virtual ~GenerationForm() = default;

  /// Adds to the route what the body says of whom it asks. @returns `invalid_argument`.
  [[nodiscard]] virtual gpuactors::Result<void> find_model(const Bytes& body, Route& route) = 0;

  /// The sequence of a request, before it is known which version it goes to; none if it has none.
  [[nodiscard]] virtual SequenceStep find_sequence(const Bytes& body) = 0;

  /// Reads the body. @returns what is wrong with it.
  [[nodiscard]] virtual gpuactors::Result<InferRequest> read(const Bytes& body, const ModelDescription& model) = 0;

  /// Whether the answer is a stream of events; known once the body was read.
  [[nodiscard]] virtual bool streams() const = 0;

  /// The document of all replies together.
  /// @param share Grows with it.
  /// @returns what cannot be written, and `no_capacity` where the share may not grow.
  [[nodiscard]] virtual gpuactors::Result<std::string> whole(const InferReply& reply, HeldShare& share) = 0;

  /// The text of a reply's event, of those behind the last reply, which may be none, and of the error that ends them.
  [[nodiscard]] virtual gpuactors::Result<std::string> event(const InferReply& reply, HeldShare& share) = 0;
  [[nodiscard]] virtual std::string end() = 0;
  [[nodiscard]] virtual std::string error_event(const gpuactors::Error& error) = 0;

  [[nodiscard]] virtual HttpAnswer refusal(int status, std::string_view sentence) = 0;
};

/// That of the generate extension, or of OpenAI's paths. @param endpoint  One that is asked so.
[[nodiscard]] std::unique_ptr<GenerationForm> form_of(EndpointKind endpoint);

} // namespace serve
