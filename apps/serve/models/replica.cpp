#include "replica.hpp"

#include "memory_file.hpp"
#include "network_description.hpp"

#include <gpuactors/actor/served_batch.hpp>

#include <apps/nn/checkpoint.hpp>
#include <apps/nn/network.hpp>

#include <fmt/format.h>

#include <stdexcept>
#include <string>
#include <utility>

namespace serve {

using gpuactors::Buffer;
using gpuactors::Clock;
using gpuactors::Errc;
using gpuactors::Init;
using gpuactors::Result;
using gpuactors::Stream;
using gpuactors::value_or_throw;

namespace {

/// Nanoseconds since `start`, which becomes now.
std::int64_t lap(gpuactors::TimePoint& start) {
  const auto before = std::exchange(start, Clock::now());
  return std::chrono::duration_cast<std::chrono::nanoseconds>(start - before).count();
}

/// Loads its network once; the buffers for the largest batch are there from then on.
class Replica : public gpuactors::Actor {
public:
  Replica(Init init, const wire::ReplicaConfig& config)
    : Actor(std::move(init)), max_rows_(config.max_rows()), network_(value_or_throw(load(config))) {
    const auto element = gpuactors::size_of(network_.spec().dtype);
    row_in_ = static_cast<std::size_t>(network_.spec().inputs()) * element;
    row_out_ = static_cast<std::size_t>(network_.spec().outputs()) * element;
    const auto rows = static_cast<std::size_t>(max_rows_);
    x_ = value_or_throw(gpu().stream().allocate(rows * row_in_));
    y_ = value_or_throw(gpu().stream().allocate(rows * row_out_));
  }

  wire::ReplicaDescription describe(const google::protobuf::Empty& /*ask*/) {
    auto description = describe_network(network_.spec());
    description.set_memory_used_bytes(gpu().memory_used());
    return description;
  }

  Result<wire::ReplicaReply> infer(const wire::ReplicaBatch& batch) {
    const auto rows = batch.rows();
    GPUACTORS_LET(x, gpuactors::ServedInputs::of(batch, tensors()));
    const auto bytes = x.size() == 1 ? x[0].size() : 0;
    if (rows < 1 || rows > max_rows_ || bytes != static_cast<std::size_t>(rows) * row_in_)
      return gpuactors::fail(Errc::invalid_argument,
                             fmt::format("a batch of {} rows with {} bytes: 1 to {} rows of {} bytes are expected",
                                         rows, bytes, max_rows_, row_in_));
    auto& stream = gpu().stream();
    GPUACTORS_LET(y, gpuactors::ServedOutputs::make({static_cast<std::size_t>(rows) * row_out_}, tensors()));
    auto start = Clock::now();
    GPUACTORS_TRY(stream.upload(x_.data(), x[0].data(), bytes));
    GPUACTORS_TRY(stream.synchronize());
    const auto input_ns = lap(start);
    GPUACTORS_TRY(network_.forward(rows, x_.data(), y_.data()));
    GPUACTORS_TRY(stream.synchronize());
    const auto infer_ns = lap(start);
    GPUACTORS_TRY(stream.fetch(y[0].data(), y_.data(), y[0].size()));
    auto reply = std::move(y).finish();
    reply.set_input_ns(input_ns);
    reply.set_infer_ns(infer_ns);
    reply.set_output_ns(lap(start));
    return reply;
  }

private:
  Result<nn::Network> load(const wire::ReplicaConfig& config) {
    if (gpu_count() != 1)
      return gpuactors::fail(Errc::invalid_argument,
                             fmt::format("a replica runs on one device, not on {}", gpu_count()));
    GPUACTORS_LET(checkpoint, tensors().get(config.file()));
    GPUACTORS_LET(bytes, checkpoint.host<std::uint8_t>());
    GPUACTORS_LET(file, MemoryFile::of(bytes));
    auto network = nn::load_network(gpu().stream(), file.path(), max_rows_);
    if (!network)
      return gpuactors::fail(network.error().code(), fmt::format("model {}, version {}: {}", config.model(),
                                                                 config.version(), network.error().message()));
    return std::move(*network);
  }

  std::int64_t max_rows_;
  nn::Network network_;
  std::size_t row_in_ = 0;
  std::size_t row_out_ = 0;
  Buffer x_;
  Buffer y_;
};

GPUACTORS_ACTOR(network_type, Replica, wire::ReplicaConfig)
    .method(describe_method, &Replica::describe)
    .method(infer_method, &Replica::infer);

} // namespace

} // namespace serve
