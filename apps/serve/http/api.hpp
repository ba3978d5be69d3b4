// What an HTTP request means and what is answered, without sockets.
#pragma once

#include <apps/serve/http/route.hpp>
#include <apps/serve/protocol/front_state.hpp>
#include <apps/serve/protocol/infer_request.hpp>

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace serve {

/// The first line and the fields that count.
struct HttpHead {
  std::string method;
  std::string target;
  std::string authorization;
  /// In small letters, as are the two after it.
  std::string content_encoding;
  std::string host;
  /// The site whose page asks, where a browser says so.
  std::optional<std::string> origin;
  /// As they were sent.
  std::optional<std::string> inference_header_bytes;
  std::string request_id;
  /// What the field `traceparent` says; not valid without a good one.
  gpuactors::TraceContext trace;
  bool expects_continue = false;
};

/// A part of an answer that comes in several.
struct HttpPiece {
  std::string text;
  HeldShare share;
  /// Of one that says what ended the answer: the status that it would have had before it began. For the log alone.
  int status = 200;
};

/// What follows the text of an answer, each piece when it is there.
class AnswerStream {
public:
  virtual ~AnswerStream() = default;
  /// Calls `done` once with the next piece, or with nothing at the end, on any thread, perhaps before this returns. Not
  /// again before that.
  virtual void next(std::function<void(std::optional<HttpPiece>)> done) = 0;
};

struct HttpAnswer {
  int status = 200;
  std::string_view content_type = "application/json";
  std::string text;
  /// What follows the text.
  std::vector<Bytes> raw;
  /// Whether the client must be told where the text ends and the raw bytes begin.
  bool tell_text_size = false;
  /// The one method that the path allows, with status 405.
  std::string_view allow;
  HeldShare share;
  /// For the log: who has answered, and where the time went; empty where no model did.
  std::string model;
  std::string version;
  std::optional<ReplyTimes> times;
  /// If there is one, nobody knows yet how long the answer becomes.
  std::shared_ptr<AnswerStream> stream;
};

/// {"error": sentence} with that status.
[[nodiscard]] HttpAnswer refusal(int status, std::string_view sentence);

/// The protocol's endpoints over a `Service`. Any thread.
class HttpApi {
public:
  using Done = std::function<void(HttpAnswer)>;

  explicit HttpApi(std::shared_ptr<FrontState> state) : state_(std::move(state)) {
    // nop
  }

  /// Looks at a request before its body is read.
  /// @returns where it leads, or by `refused` why it leads nowhere.
  [[nodiscard]] std::optional<Route> admit(const HttpHead& head, HttpAnswer& refused) const;

  /// Whether whoever asks brings a token, where one is needed: liveness and readiness are for strangers, too.
  [[nodiscard]] bool is_known(const HttpHead& head) const;

  /// Answers what was admitted by `done`, once, on any thread, perhaps before this returns.
  /// @param trace What its work is a part of.
  /// @returns the handle by which an inference is given up, or nothing.
  std::shared_ptr<Service::Ticket> answer(const HttpHead& head, const gpuactors::TraceContext& trace, Route route,
                                          Bytes body, Done done) const;

  [[nodiscard]] const FrontState& state() const noexcept {
    return *state_;
  }

private:
  [[nodiscard]] HttpAnswer look(const Route& route, const Bytes& body) const;
  [[nodiscard]] HttpAnswer server_ready() const;
  [[nodiscard]] HttpAnswer look_at_model(const Route& route) const;
  /// What the repository says of a model (version) that is not ready.
  [[nodiscard]] std::string why_not_ready(const Route& route) const;
  /// Those that OpenAI's paths ask, by their names.
  [[nodiscard]] std::vector<std::string> models_with_texts() const;
  void control(const Route& route, const Bytes& body, const Done& done) const;
  [[nodiscard]] std::string metrics() const;

  std::shared_ptr<FrontState> state_;
};

} // namespace serve
