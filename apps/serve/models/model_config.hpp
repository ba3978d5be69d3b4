// What is served: a name, a file, and how; written as NAME=FILE[,key=value...].
#pragma once

#include <gpuactors/base/clock.hpp>
#include <gpuactors/base/result.hpp>
#include <gpuactors/cluster/options.hpp>

#include <apps/serve/batching/batch_queue.hpp>
#include <apps/serve/batching/scaling.hpp>

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace serve {

/// One model. A plain value.
struct ModelConfig {
  std::string name;
  /// The checkpoint of a network; for an actor type whatever it reads, or empty.
  std::string file;

  /// The actor type of the replicas; empty means the library's own networks.
  std::string actor;
  /// What the actor gets beside the file.
  std::map<std::string, std::string> settings;
  /// Labels that the nodes of replicas must have.
  std::map<std::string, std::string> labels;
  gpuactors::Isolation isolation = gpuactors::Isolation::thread;

  /// What each replica owns: a share of one device up to the whole of it, and how much of its memory; 0 bytes means the
  /// share's part.
  double gpus = 0.25;
  std::uint64_t memory_bytes = 0;

  /// Replicas at the start. The least and the most are the same unless they are given.
  std::size_t replicas = 1;
  std::optional<std::size_t> min_replicas;
  std::optional<std::size_t> max_replicas;
  gpuactors::Duration idle_after = std::chrono::seconds{30};
  /// How long a replica may take from its share to its first answer.
  gpuactors::Duration start_timeout = std::chrono::minutes{10};
  /// How long requests wait for a replica where none serves, once a start has failed.
  gpuactors::Duration replica_wait = std::chrono::seconds{30};
  /// Whether a version that finds no room beside an only replica takes its place: nobody is answered until it serves.
  bool in_place = false;

  std::uint64_t max_batch = 32;
  std::size_t max_queue = 1'024;
  gpuactors::Duration max_delay = gpuactors::Duration::zero();
  /// Batches that wait at a replica behind the one that runs.
  std::size_t ahead = 0;

  /// Requests that a replica of a generative model runs at once.
  std::size_t max_running = 16;

  /// Sequences that a model with such may have, and after how long without requests one is forgotten.
  std::size_t max_sequences = 1'024;
  gpuactors::Duration sequence_idle = std::chrono::seconds{60};

  std::optional<gpuactors::Duration> timeout;
  /// How long a request may wait for its turn, whatever time its answer takes.
  std::optional<gpuactors::Duration> queue_timeout;
  std::uint64_t priority = 2;

  [[nodiscard]] batching::ScalingLimits scaling() const;

  friend bool operator==(const ModelConfig&, const ModelConfig&) = default;
};

/// A version that is there beside a model's own, for a share of the requests that name no version: from 0 to 1.
struct CanaryConfig {
  ModelConfig config;
  double share = 0;

  friend bool operator==(const CanaryConfig&, const CanaryConfig&) = default;
};

/// A model, and perhaps its canary. A plain value.
struct ModelEntry {
  ModelConfig config;
  std::optional<CanaryConfig> canary = std::nullopt;

  friend bool operator==(const ModelEntry&, const ModelEntry&) = default;
};

/// Bytes of requests that may wait for one model, whatever `max_queue` says.
inline constexpr std::size_t queue_bytes = 256U << 20;

/// What a model's text may say, and options of the command line for all models: "max-batch", "N", "rows of a batch".
struct ModelKey {
  std::string_view name;
  std::string_view value;
  std::string_view help;
  /// It may be said several times, each time with another name in its value.
  bool repeats = false;
};
[[nodiscard]] std::vector<ModelKey> model_keys();

/// Sets what one key says. @returns `invalid_argument`, naming the key and what is allowed.
gpuactors::Result<void> set_key(ModelConfig& config, std::string_view key, const std::string& value);

/// Reads "digits=model.safetensors,replicas=2,max-batch=64", or "digits,actor=TYPE" where an actor needs no file; what
/// is not said is as in `defaults`.
/// @returns `invalid_argument`, saying what is wrong and what would be right.
gpuactors::Result<ModelConfig> parse_model(const std::string& text, const ModelConfig& defaults);

/// @returns `invalid_argument`, saying how a model may be called.
gpuactors::Result<void> check_name(std::string_view name);

/// Checks what the keys say together. @returns `invalid_argument`.
gpuactors::Result<void> check(const ModelConfig& config);

} // namespace serve
