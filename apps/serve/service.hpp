// What the HTTP and gRPC fronts ask for and what the models behind them answer: requests and replies of the Open
// Inference Protocol v2, free of any wire format.
#pragma once

#include <gpuactors/base/clock.hpp>
#include <gpuactors/base/result.hpp>
#include <gpuactors/base/trace_context.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace serve {

/// Element types of the protocol; BYTES elements are a 32-bit little-endian length and that many bytes each.
enum class DataType : std::uint8_t {
  boolean,
  uint8,
  uint16,
  uint32,
  uint64,
  int8,
  int16,
  int32,
  int64,
  fp16,
  bf16,
  fp32,
  fp64,
  bytes,
};

/// Bytes that somebody keeps: cheap to copy, immutable, any thread.
class Bytes {
public:
  Bytes() = default;

  Bytes(std::shared_ptr<const void> owner, std::span<const std::byte> view) : owner_(std::move(owner)), view_(view) {
    // nop
  }

  /// Takes over a string or vector.
  template <class Container>
  static Bytes of(Container values) {
    auto kept = std::make_shared<const Container>(std::move(values));
    const auto view = std::as_bytes(std::span{kept->data(), kept->size()});
    return Bytes{std::move(kept), view};
  }

  [[nodiscard]] std::span<const std::byte> view() const noexcept {
    return view_;
  }

  [[nodiscard]] std::size_t size() const noexcept {
    return view_.size();
  }

  /// Some of the bytes, kept by the same owner.
  [[nodiscard]] Bytes part(std::size_t offset, std::size_t count) const {
    return {owner_, view_.subspan(offset, count)};
  }

private:
  std::shared_ptr<const void> owner_;
  std::span<const std::byte> view_;
};

/// A named array: `data` holds the elements row by row, little-endian, as many as `shape` says (fronts check that).
struct NamedTensor {
  std::string name;
  DataType type = DataType::fp32;
  std::vector<std::int64_t> shape;
  Bytes data;
};

/// What a client says beside the inputs, for models that understand it.
using Parameter = std::variant<bool, std::int64_t, double, std::string>;

/// A request's place among others that belong together, whose model may keep something of those before.
struct SequenceStep {
  /// Empty: it is in no sequence.
  std::string id;
  bool start = false;
  bool end = false;
};

struct InferRequest {
  std::string model;
  /// Empty means the newest that is ready.
  std::string version;
  std::string id;
  std::vector<NamedTensor> inputs;
  /// Names of the outputs that are wanted; empty means all.
  std::vector<std::string> outputs;
  /// 1 is served first; 0 means the model's default.
  std::uint64_t priority = 0;
  /// The answer must come within this time of its arrival; none means the model's default.
  std::optional<gpuactors::Duration> timeout;
  /// When its caller stops waiting, whatever its timeout.
  gpuactors::TimePoint call_deadline = gpuactors::never;
  /// When all of it had come; none: when the service gets it.
  std::optional<gpuactors::TimePoint> arrived;
  SequenceStep sequence;
  /// For generative models, without those that the server itself understands.
  std::map<std::string, Parameter> parameters;
  /// Whether the client wants a reply of its own that says that there are no more (fronts see to that).
  bool wants_end = false;
  /// What the work for it is a part of: its span here, or whatever its client has said.
  gpuactors::TraceContext trace;
};

/// Where the time of a request went that was answered as part of a batch.
struct ReplyTimes {
  /// From its arrival to when its batch was sent.
  gpuactors::Duration queued{};
  /// What the actor needed for the batch.
  gpuactors::Duration inferred{};
  std::uint64_t batch_rows = 0;
  /// The span of the batch, unless it is recorded as a part of this request, or not at all.
  gpuactors::TraceContext batch{};
};

/// One answer, or one of those of a generative model.
struct InferReply {
  std::string model;
  std::string version;
  std::string id;
  std::vector<NamedTensor> outputs;
  std::optional<ReplyTimes> times{};
};

/// How the codes of `gpuactors::Errc` are used here, and what fronts make of them (HTTP, gRPC):
///   invalid_argument   400, INVALID_ARGUMENT     wrong names, shapes, types, sizes
///   not_found          404, NOT_FOUND            no such model or version
///   queue_full         429, RESOURCE_EXHAUSTED   the model's queue is full, the deadline cannot be met, or it waited
///                                                for its turn as long as it may
///   deadline_exceeded  504, DEADLINE_EXCEEDED    the timeout passed
///   unavailable        503, UNAVAILABLE          the model is being loaded or unloaded, has no replica and none
///                                                to wait for, or the server ends
///   no_capacity        503, RESOURCE_EXHAUSTED   a model that is to be loaded finds no room on the devices, or the
///                                                server holds as many bytes as it may
///   unsupported        501, UNIMPLEMENTED        nothing here does that
///   cancelled          499, CANCELLED            the client has gone
///   anything else      500, INTERNAL
using InferDone = std::function<void(gpuactors::Result<InferReply>)>;

struct TensorSpec {
  std::string name;
  DataType type = DataType::fp32;
  /// -1 where any size goes. With batching the first dimension is the batch and is -1.
  std::vector<std::int64_t> shape;
};

/// What a model says of itself.
struct ModelDescription {
  std::string name;
  /// Those that serve; last the one that is described.
  std::vector<std::string> versions;
  std::string platform;
  std::vector<TensorSpec> inputs;
  std::vector<TensorSpec> outputs;
  /// Whether it answers with a stream of replies: `Service::generate` asks it, and `infer` does not.
  bool generative = false;
  /// Requests that each replica of a generative model runs at once.
  std::uint64_t max_running = 0;
  /// 0: no batching.
  std::uint64_t max_batch = 0;
  std::uint64_t max_queue = 0;
  std::optional<gpuactors::Duration> default_timeout;
  std::size_t replicas = 0;
  double gpus = 0;
};

/// A count of events and the nanoseconds that they took together.
struct Timed {
  std::uint64_t count = 0;
  std::uint64_t nanoseconds = 0;
};

struct ModelStatistics {
  std::string name;
  std::string version;
  std::uint64_t last_inference_ms = 0; // since the epoch
  std::uint64_t inference_count = 0;   // rows
  std::uint64_t execution_count = 0;   // batches
  Timed success, fail, queue, compute_input, compute_infer, compute_output;
  /// By size of the batch.
  std::map<std::uint64_t, Timed> batches;
  std::uint64_t pending = 0;
  /// Failed requests by Triton's reasons: REJECTED, CANCELED, BACKEND, OTHER.
  std::map<std::string, std::uint64_t> failures;
};

struct RepositoryEntry {
  std::string name;
  std::string version;
  /// READY, LOADING, UNLOADING, UNAVAILABLE.
  std::string state;
  std::string reason;
};

/// The models behind the fronts. All members from any thread; none blocks for long except `load` and `unload`.
class Service {
public:
  virtual ~Service() = default;

  /// Answers by `done`, exactly once, on any thread, perhaps before this returns. Destroying the result or calling it
  /// withdraws nothing; `cancel` of the handle does.
  class Ticket {
  public:
    virtual ~Ticket() = default;
    /// The client has gone: drop the request if it still waits. Any thread; `done` is still called once.
    virtual void cancel() noexcept = 0;
  };
  virtual std::shared_ptr<Ticket> infer(InferRequest request, InferDone done) = 0;

  /// The replies to one request of a generative model, which come as they are asked for. One thread at a time asks.
  class Replies : public Ticket {
  public:
    /// A reply; nothing at the end; or the error that ended them.
    using Next = std::function<void(gpuactors::Result<std::optional<InferReply>>)>;
    /// Calls `done` once, as soon as there is something, on any thread, perhaps before this returns. Not again before
    /// that, nor after the end. Who does not ask holds up the model, once its buffers are full.
    virtual void next(Next done) = 0;
  };
  /// Asks a generative model. The first `next` says what is wrong with the request, if something is. Whoever does not
  /// want the rest must `cancel`.
  virtual std::shared_ptr<Replies> generate(InferRequest request) = 0;

  /// Whether the version of a model to which a request goes is asked by `generate`. @returns the errors of `describe`.
  [[nodiscard]] virtual gpuactors::Result<bool> generative(std::string_view model, std::string_view version,
                                                           const SequenceStep& step) const = 0;

  /// Whether every model that should be ready is.
  [[nodiscard]] virtual bool ready() const = 0;
  /// @returns `not_found`; whether this model (version) can be asked now.
  [[nodiscard]] virtual gpuactors::Result<bool> model_ready(std::string_view model, std::string_view version) const = 0;
  /// @param step  What a request says of its sequence: an older version may be the one that goes on with it.
  [[nodiscard]] virtual gpuactors::Result<ModelDescription> describe(std::string_view model, std::string_view version,
                                                                     const SequenceStep& step = {}) const = 0;
  /// Of all models when `model` is empty.
  [[nodiscard]] virtual gpuactors::Result<std::vector<ModelStatistics>> statistics(std::string_view model,
                                                                                   std::string_view version) const = 0;
  [[nodiscard]] virtual std::vector<RepositoryEntry> repository() const = 0;

  /// Loads a model, or its newest file beside the version that serves; blocks until it is ready.
  /// `parameters` are those of the repository extension.
  virtual gpuactors::Result<void> load(std::string_view model,
                                       const std::map<std::string, std::string>& parameters) = 0;
  virtual gpuactors::Result<void> unload(std::string_view model) = 0;

  /// The text of /metrics, in Prometheus' format.
  [[nodiscard]] virtual std::string metrics() const = 0;
};

} // namespace serve
