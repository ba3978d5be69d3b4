#include "model_version.hpp"

#include "memory_file.hpp"

#include <apps/nn/checkpoint.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace serve {

using gpuactors::Cluster;
using gpuactors::Errc;
using gpuactors::Result;
using gpuactors::Shared;
using gpuactors::Tensor;

namespace {

/// What a message has beside the rows of a batch, at most.
constexpr std::size_t message_head = 256;

struct Checkpoint {
  nn::NetworkSpec spec;
  Shared<Tensor> bytes;
};

/// Copies the file, and looks at the copy only, so that a file that is being replaced cannot be half one and half the
/// other.
Result<Checkpoint> read_checkpoint(Cluster& cluster, const std::string& path) {
  GPUACTORS_LET(copy, MemoryFile::copy_of(path));
  auto spec = nn::read_spec(copy.path());
  if (!spec) {
    auto sentence = spec.error().message();
    for (auto at = sentence.find(copy.path()); at != std::string::npos; at = sentence.find(copy.path()))
      sentence.replace(at, copy.path().size(), path);
    if (sentence.find(path) == std::string::npos)
      sentence = fmt::format("{}: {}", path, sentence);
    return gpuactors::fail(spec.error().code(), std::move(sentence));
  }
  GPUACTORS_LET(bytes, copy.bytes());
  GPUACTORS_LET(shared, cluster.put(bytes, {static_cast<std::int64_t>(bytes.size())}));
  return Checkpoint{std::move(*spec), std::move(shared)};
}

Result<ModelFacts> facts_of(const nn::NetworkSpec& spec, const ModelConfig& config, std::uint64_t number) {
  ModelFacts facts;
  facts.name = config.name;
  facts.version = std::to_string(number);
  facts.title = fmt::format("model {}, version {}", config.name, number);
  facts.type = spec.dtype == gpuactors::DType::f64 ? DataType::fp64 : DataType::fp32;
  facts.inputs = spec.inputs();
  facts.outputs = spec.outputs();
  const auto element = gpuactors::size_of(spec.dtype);
  facts.row_in_bytes = static_cast<std::size_t>(spec.inputs()) * element;
  facts.row_out_bytes = static_cast<std::size_t>(spec.outputs()) * element;
  constexpr auto most = gpuactors::limits::payload_bytes - message_head;
  if (std::max(facts.row_in_bytes, facts.row_out_bytes) > most)
    return gpuactors::fail(Errc::invalid_argument,
                           fmt::format("{}: rows of {} and {} bytes; a row has at most {}", config.file,
                                       facts.row_in_bytes, facts.row_out_bytes, most));
  return facts;
}

/// As many rows as were asked for, as far as one message holds them.
batching::QueueLimits queue_limits(const ModelConfig& config, const ModelFacts& facts) {
  const auto row = std::max(facts.row_in_bytes, facts.row_out_bytes);
  batching::QueueLimits limits;
  limits.max_batch = std::min<std::uint64_t>(config.max_batch, (gpuactors::limits::payload_bytes - message_head) / row);
  limits.max_requests = config.max_queue;
  limits.max_rows = std::max<std::uint64_t>(queue_bytes / facts.row_in_bytes, limits.max_batch);
  limits.max_delay = config.max_delay;
  return limits;
}

} // namespace

Result<std::unique_ptr<ModelVersion>> ModelVersion::load(Cluster& cluster, const ModelConfig& config,
                                                         std::uint64_t number, const LoadOptions& how) {
  GPUACTORS_LET(checkpoint, read_checkpoint(cluster, config.file));
  GPUACTORS_LET(facts, facts_of(checkpoint.spec, config, number));
  const auto limits = queue_limits(config, facts);
  std::unique_ptr<ModelVersion> version{new ModelVersion};
  version->checkpoint_ = std::move(checkpoint.bytes);
  GPUACTORS_LET(dispatcher, Dispatcher::start({facts, limits, config.ahead}, [bell = how.bell] { bell->ring(); }));
  version->dispatcher_ = std::move(dispatcher);

  ReplicaOptions options;
  options.type = how.replica_type;
  options.first_wait = how.wait;
  options.notice = how.notice;
  options.config.set_title(facts.title);
  *options.config.mutable_checkpoint() = version->checkpoint_.ref();
  options.config.set_max_rows(static_cast<std::int64_t>(limits.max_batch));
  options.resources.gpus = config.gpus;
  options.resources.memory_bytes = config.memory_bytes;
  options.resources.spread = true;
  options.resources.wait_for_nodes = how.wait_for_nodes;
  options.scaling = config.scaling();
  options.initial = std::clamp(config.replicas, options.scaling.min_replicas, options.scaling.max_replicas);
  GPUACTORS_LET(replicas, ReplicaSet::start(cluster, version->dispatcher_, how.bell, std::move(options)));
  version->replicas_ = std::move(replicas);
  return version;
}

ModelVersion::~ModelVersion() {
  end(gpuactors::TimePoint{});
}

void ModelVersion::end(gpuactors::TimePoint until) {
  if (dispatcher_ != nullptr)
    dispatcher_->close(until);
  if (replicas_ != nullptr)
    replicas_->stop();
}

} // namespace serve
