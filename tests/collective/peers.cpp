#include "peers.hpp"

#include <fmt/format.h>

#include <random>

namespace gpuactors::test {

namespace {

std::vector<float> floats(const Vector& array, int from = 0) {
  return {array.values().begin() + from, array.values().end()};
}

class Peer : public WithPeers<Actor> {
public:
  using WithPeers::WithPeers;

  Result<Vector> reduce(const Vector& array) {
    auto values = floats(array);
    GPUACTORS_TRY(peers().all_reduce(values));
    return vector_of(values);
  }

  Result<Vector> reduce_by(const Vector& array) {
    std::vector<std::int64_t> values(array.values().begin() + 1, array.values().end());
    GPUACTORS_TRY(peers().all_reduce(values, static_cast<Reduction>(static_cast<int>(array.values(0)))));
    return vector_of({values.begin(), values.end()});
  }

  Result<Vector> spread(const Vector& array) {
    auto values = floats(array, 1);
    GPUACTORS_TRY(peers().broadcast(values, static_cast<std::size_t>(array.values(0))));
    return vector_of(values);
  }

  Result<Vector> gather(const Vector& array) {
    GPUACTORS_LET(all, peers().all_gather(floats(array)));
    return vector_of(all);
  }

  Result<Vector> reduce_tensor(const Vector& array) {
    auto& stream = gpu().stream();
    GPUACTORS_LET(tensor, stream.tensor_from(floats(array), {array.values_size()}));
    GPUACTORS_TRY(peers().all_reduce(stream, tensor));
    GPUACTORS_LET(values, stream.to_host<float>(tensor));
    return vector_of(values);
  }

  Result<Vector> spread_tensor(const Vector& array) {
    auto& stream = gpu().stream();
    GPUACTORS_LET(tensor, stream.tensor_from(floats(array, 1), {array.values_size() - 1}));
    GPUACTORS_TRY(peers().broadcast(stream, tensor, static_cast<std::size_t>(array.values(0))));
    GPUACTORS_LET(values, stream.to_host<float>(tensor));
    return vector_of(values);
  }

  Result<Vector> gather_tensor(const Vector& array) {
    auto& stream = gpu().stream();
    GPUACTORS_LET(own, stream.tensor_from(floats(array), {array.values_size()}));
    GPUACTORS_LET(all, stream.tensor(DType::f32, {static_cast<std::int64_t>(peers().size()), array.values_size()}));
    GPUACTORS_TRY(peers().all_gather(stream, own, all));
    GPUACTORS_LET(values, stream.to_host<float>(all));
    return vector_of(values);
  }

  /// A value for each type and operation, in the order of the types.
  Result<Vector> every_type(const Vector& array) {
    Vector results;
    GPUACTORS_TRY(use_type<float>(array, results));
    GPUACTORS_TRY(use_type<double>(array, results));
    GPUACTORS_TRY(use_type<std::int32_t>(array, results));
    GPUACTORS_TRY(use_type<std::int64_t>(array, results));
    GPUACTORS_TRY(use_type<std::uint8_t>(array, results));
    GPUACTORS_TRY(use_type<Float16>(array, results));
    GPUACTORS_TRY(use_type<BFloat16>(array, results));
    return results;
  }

  Result<void> meet(const Number& milliseconds) {
    ++meetings();
    const auto timeout = std::chrono::milliseconds{static_cast<int>(milliseconds.value())};
    return timeout.count() == 0 ? peers().barrier() : peers().barrier(timeout);
  }

  void give_up(const Text& reason) {
    peers().abort(reason.text());
  }

  Text place_of(const google::protobuf::Empty&) {
    return text(fmt::format("{} of {}", peers().rank(), peers().size()));
  }

private:
  /// The array in elements of this type: as rank 0 has it, of all, and summed unless it is bytes.
  template <class T>
  Result<void> use_type(const Vector& array, Vector& results) {
    std::vector<T> values;
    for (const auto value : array.values())
      values.push_back(T(value));
    const auto keep = [&](const std::vector<T>& result) {
      for (const auto value : result)
        results.add_values(static_cast<float>(value));
    };
    GPUACTORS_LET(all, peers().all_gather(values));
    keep(all);
    auto first = values;
    GPUACTORS_TRY(peers().broadcast(first));
    keep(first);
    if constexpr (sizeof(T) > 1) {
      GPUACTORS_TRY(peers().all_reduce(values));
      keep(values);
    }
    return {};
  }
};

GPUACTORS_ACTOR(peer, Peer)
    .method(reduce, &Peer::reduce)
    .method(reduce_by, &Peer::reduce_by)
    .method(spread, &Peer::spread)
    .method(gather, &Peer::gather)
    .method(reduce_tensor, &Peer::reduce_tensor)
    .method(spread_tensor, &Peer::spread_tensor)
    .method(gather_tensor, &Peer::gather_tensor)
    .method(every_type, &Peer::every_type)
    .method(meet, &Peer::meet)
    .method(give_up, &Peer::give_up)
    .method(place_of, &Peer::place_of);

} // namespace

std::atomic<int>& meetings() {
  static std::atomic<int> count{0};
  return count;
}

Cluster embed_peers() {
  return must(Cluster::embed({.devices = "host:1x64MiB"}));
}

std::vector<ActorRef> spawn_peers(Cluster& cluster, std::size_t count, double gpus, int max_restarts) {
  std::vector<ActorRef> members;
  for (std::size_t i = 0; i < count; ++i) {
    Options options;
    options.name = std::string(1, static_cast<char>('a' + i));
    options.gpus = gpus;
    options.max_restarts = max_restarts;
    members.push_back(must(cluster.spawn(peer, {}, options)));
  }
  return members;
}

Vector vector_of(const std::vector<float>& values) {
  Vector result;
  result.mutable_values()->Add(values.begin(), values.end());
  return result;
}

std::vector<Vector> arrays_of(std::size_t members, std::size_t elements) {
  std::mt19937_64 random{members * 1000 + elements};
  std::vector<Vector> arrays(members);
  for (auto& array : arrays)
    for (std::size_t i = 0; i < elements; ++i)
      array.add_values(static_cast<float>(random() % 10'007) / 10'007);
  return arrays;
}

std::vector<Result<Vector>> call_each(const std::vector<ActorRef>& members, const Method<Vector, Vector>& method,
                                      const std::vector<Vector>& arrays) {
  std::vector<Future<Vector>> calls;
  for (std::size_t rank = 0; rank < members.size(); ++rank)
    calls.push_back(members[rank].call(method, arrays[rank]));
  std::vector<Result<Vector>> answers;
  for (auto& call : calls)
    answers.push_back(call.get());
  return answers;
}

std::vector<std::vector<float>> values_of(std::vector<Result<Vector>> answers) {
  std::vector<std::vector<float>> values;
  for (auto& answer : answers)
    values.push_back(floats(must(std::move(answer))));
  return values;
}

} // namespace gpuactors::test
