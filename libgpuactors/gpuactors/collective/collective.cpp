#include <gpuactors/cluster/cluster.hpp>
#include <gpuactors/collective/collective.hpp>
#include <gpuactors/collective/detail/member.hpp>
#include <gpuactors/collective/detail/neighbour.hpp>
#include <gpuactors/trace/span.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>

namespace gpuactors {

using detail::Operation;
using detail::OperationKind;

namespace {

Error not_reducible(DType dtype) {
  return {Errc::invalid_argument, fmt::format("{} cannot be reduced: all other types can", to_string(dtype))};
}

Error no_such_rank(std::size_t rank, const detail::Place& place) {
  return {Errc::invalid_argument, fmt::format("rank {} is none of 0 to {}", rank, place.size() - 1)};
}

Failure no_neighbour(const std::string& member, const Error& error) {
  if (error.code() == Errc::not_found)
    return fail(Errc::unavailable, fmt::format("{} is gone: {}", member, error.message()));
  return fail(error.code(), fmt::format("{} was not found: {}", member, error.message()));
}

/// Finds the next member, which is called `who`.
Result<ActorRef> find_neighbour(const Actor& actor, const v1::ActorHandle& neighbour, const std::string& who) {
  // Other concurrent calls wait for this one: not longer than its caller does.
  const auto deadline =
      actor.deadline() == never ? deadline_after(Clock::now(), limits::call_deadline) : actor.deadline();
  const auto find = [&] { return Cluster::from(actor).find(neighbour, deadline - Clock::now()); };
  Duration wait = limits::redial_shortest;
  const auto pause = [&] {
    const auto left = deadline - Clock::now() - limits::redial_shortest;
    if (actor.stop_requested() || left <= Duration::zero())
      return false;
    // The last look is just before the end.
    std::this_thread::sleep_for(std::min<Duration>(wait, left));
    // After the loss of a node, all members of all groups ask the same broker.
    wait = std::min<Duration>(2 * wait, limits::redial_longest);
    return true;
  };
  auto found = detail::find_present(find, pause);
  if (!found)
    return no_neighbour(who, found.error());
  if (found->away())
    return fail(Errc::unavailable, fmt::format("{} is gone: its process has ended, or cannot be reached", who));
  return found;
}

/// The span of an operation, if the call that it is made in is traced.
class OperationSpan {
public:
  explicit OperationSpan(std::string_view what) {
    if (current_trace().sampled)
      span_.emplace(what);
  }

  void set(const detail::Place& place) {
    if (!span_)
      return;
    span_->set("gpuactors.rank", static_cast<std::int64_t>(place.rank));
    span_->set("gpuactors.members", static_cast<std::int64_t>(place.size()));
  }

  Result<void> end(Result<void> result) {
    if (span_ && !result)
      span_->fail(result.error());
    return result;
  }

private:
  std::optional<Span> span_;
};

/// Runs an operation in the group that `member` is in. What it has no memory for ends the group.
template <class F>
Result<void> run_in(detail::Member& member, std::string_view what, const detail::Patience& limits, OperationSpan& span,
                    F operation) {
  GPUACTORS_LET(place, member.await_place(limits));
  span.set(place);
  const Error no_memory{Errc::out_of_memory, "there is no host memory for its arrays"};
  try {
    return operation(place);
  } catch (const std::bad_alloc&) {
    return member.refuse(place.generation, what, no_memory);
  } catch (const std::length_error&) {
    return member.refuse(place.generation, what, no_memory);
  }
}

template <class F>
Result<void> take_part(detail::Member& member, std::string_view what, const detail::Patience& limits, F operation) {
  OperationSpan span{what};
  return span.end(run_in(member, what, limits, span, std::move(operation)));
}

Result<void> check_tensor(const Tensor& tensor) {
  return tensor ? Result<void>{} : fail(Errc::invalid_argument, "the tensor is empty or was reclaimed");
}

} // namespace

Collective::Collective(Actor& actor) : actor_(actor), member_(std::make_shared<detail::Member>()) {
  // nop
}

Collective::~Collective() = default;

// -- the group ------------------------------------------------------------------------------------

std::size_t Collective::rank() const {
  return member_->place().rank;
}

std::size_t Collective::size() const {
  return member_->place().size();
}

std::optional<Error> Collective::ended() const {
  return member_->ended();
}

void Collective::abort(std::string_view reason) const {
  const auto place = member_->place();
  if (place.generation != 0)
    member_->abort(place.generation, {Errc::cancelled, fmt::format("rank {} of {} ({}) gave up: {}", place.rank,
                                                                   place.size(), place.names[place.rank], reason)});
}

Future<v1::CollectiveAnswer> Collective::serve(const v1::CollectiveCall& call) const {
  const auto plain = [](const Result<void>& result) {
    using Answer = Result<v1::CollectiveAnswer>;
    return Future<v1::CollectiveAnswer>::ready_with(result ? Answer{v1::CollectiveAnswer{}}
                                                           : Answer{fail(result.error())});
  };
  switch (call.what_case()) {
  case v1::CollectiveCall::kJoin:
    return plain(join(call.generation(), call.join()));
  case v1::CollectiveCall::kStart:
    return plain(member_->start(call.generation()));
  case v1::CollectiveCall::kWatch:
    return member_->watch(call.generation());
  case v1::CollectiveCall::kPiece:
    return member_->take(call.generation(), call.piece());
  case v1::CollectiveCall::kAbort:
    if (call.generation() != 0)
      member_->abort(call.generation(), {Errc::cancelled, call.abort()});
    return plain({});
  case v1::CollectiveCall::WHAT_NOT_SET:
    break;
  }
  return plain(fail(Errc::invalid_argument, "a message to a member of a group says nothing that is known here"));
}

Result<void> Collective::join(std::uint64_t generation, const v1::CollectiveJoin& join) const {
  const auto members = static_cast<std::size_t>(join.members_size());
  if (generation == 0 || join.rank() >= members)
    return fail(Errc::invalid_argument,
                fmt::format("rank {} of {} members in group {} is none", join.rank(), members, generation));
  detail::Place place{generation, static_cast<std::size_t>(join.rank()), {}};
  for (const auto& member : join.members())
    place.names.push_back(detail::name_of(member));
  ActorRef next;
  if (members > 1) {
    const auto rank = (place.rank + 1) % members;
    const auto& neighbour = join.members(static_cast<int>(rank));
    const auto who = fmt::format("rank {} of {} ({})", rank, members, place.names[rank]);
    GPUACTORS_LET(found, find_neighbour(actor_, neighbour, who));
    next = std::move(found);
  }
  member_->join(std::move(place), std::move(next));
  return {};
}

// -- operations -----------------------------------------------------------------------------------

detail::Patience Collective::patience(Duration timeout) const {
  const auto deadline = actor_.deadline();
  return {[this] { return actor_.stop_requested(); }, deadline,
          std::min(deadline, deadline_after(Clock::now(), timeout))};
}

Result<void> Collective::reduce(void* values, std::size_t count, DType dtype, Reduction reduction, Duration timeout) {
  const auto limits = patience(timeout);
  return take_part(*member_, "all_reduce", limits, [&](const detail::Place& place) -> Result<void> {
    const Operation operation{OperationKind::all_reduce, dtype, reduction, count};
    if (!is_reducible(dtype))
      return member_->refuse(place.generation, to_string(operation), not_reducible(dtype));
    return member_->run(place.generation, operation, {static_cast<std::byte*>(values), count * size_of(dtype)}, limits);
  });
}

Result<void> Collective::spread(void* values, std::size_t count, DType dtype, std::size_t root, Duration timeout) {
  const auto limits = patience(timeout);
  return take_part(*member_, "broadcast", limits, [&](const detail::Place& place) -> Result<void> {
    const Operation operation{OperationKind::broadcast, dtype, Reduction::sum, count, root};
    if (root >= place.size())
      return member_->refuse(place.generation, to_string(operation), no_such_rank(root, place));
    return member_->run(place.generation, operation, {static_cast<std::byte*>(values), count * size_of(dtype)}, limits);
  });
}

Result<void> Collective::gather(const void* own, std::size_t count, DType dtype,
                                const std::function<void*(std::size_t)>& room, Duration timeout) {
  const auto limits = patience(timeout);
  return take_part(*member_, "all_gather", limits, [&](const detail::Place& place) {
    const Operation operation{OperationKind::all_gather, dtype, Reduction::sum, count * place.size()};
    const auto bytes = count * size_of(dtype);
    auto* all = static_cast<std::byte*>(room(operation.elements));
    if (bytes != 0)
      std::memcpy(all + place.rank * bytes, own, bytes);
    return member_->run(place.generation, operation, {all, place.size() * bytes}, limits);
  });
}

Result<void> Collective::barrier(Duration timeout) {
  const auto limits = patience(timeout);
  return take_part(*member_, "barrier", limits, [&](const detail::Place& place) {
    // The sum of one element of all members: nobody has it before all have begun.
    std::int32_t one = 1;
    return member_->run(place.generation, {OperationKind::barrier, DType::i32, Reduction::sum, 1},
                        std::as_writable_bytes(std::span{&one, 1}), limits);
  });
}

// -- tensors --------------------------------------------------------------------------------------

Result<void> Collective::fetch(Stream& stream, const Tensor& tensor, std::size_t offset) {
  GPUACTORS_TRY(check_tensor(tensor));
  if (scratch_.size() < offset + tensor.bytes())
    scratch_.resize(offset + tensor.bytes());
  GPUACTORS_TRY(stream.download(scratch_.data() + offset, tensor.raw(), tensor.bytes()));
  return stream.synchronize();
}

Result<void> Collective::store(Stream& stream, Tensor& tensor) {
  GPUACTORS_TRY(stream.upload(tensor.raw(), scratch_.data(), tensor.bytes()));
  return stream.synchronize();
}

Result<void> Collective::all_reduce(Stream& stream, Tensor& tensor, Reduction reduction, Duration timeout) {
  const auto limits = patience(timeout);
  return take_part(*member_, "all_reduce of a tensor", limits, [&](const detail::Place& place) -> Result<void> {
    const Operation operation{OperationKind::all_reduce, tensor.dtype(), reduction,
                              static_cast<std::size_t>(tensor.size())};
    if (!is_reducible(tensor.dtype()))
      return member_->refuse(place.generation, to_string(operation), not_reducible(tensor.dtype()));
    if (place.size() == 1)
      return member_->run(place.generation, operation, {}, limits);
    if (const auto fetched = fetch(stream, tensor, 0); !fetched)
      return member_->refuse(place.generation, to_string(operation), fetched.error());
    GPUACTORS_TRY(member_->run(place.generation, operation, std::span{scratch_}.first(tensor.bytes()), limits));
    if (const auto stored = store(stream, tensor); !stored)
      return member_->refuse(place.generation, to_string(operation), stored.error());
    return {};
  });
}

Result<void> Collective::broadcast(Stream& stream, Tensor& tensor, std::size_t root, Duration timeout) {
  const auto limits = patience(timeout);
  return take_part(*member_, "broadcast of a tensor", limits, [&](const detail::Place& place) -> Result<void> {
    const Operation operation{OperationKind::broadcast, tensor.dtype(), Reduction::sum,
                              static_cast<std::size_t>(tensor.size()), root};
    if (root >= place.size())
      return member_->refuse(place.generation, to_string(operation), no_such_rank(root, place));
    if (place.size() == 1)
      return member_->run(place.generation, operation, {}, limits);
    scratch_.resize(std::max(scratch_.size(), tensor.bytes()));
    if (const auto fetched = place.rank == root ? fetch(stream, tensor, 0) : check_tensor(tensor); !fetched)
      return member_->refuse(place.generation, to_string(operation), fetched.error());
    GPUACTORS_TRY(member_->run(place.generation, operation, std::span{scratch_}.first(tensor.bytes()), limits));
    if (const auto stored = place.rank == root ? Result<void>{} : store(stream, tensor); !stored)
      return member_->refuse(place.generation, to_string(operation), stored.error());
    return {};
  });
}

Result<void> Collective::all_gather(Stream& stream, const Tensor& own, Tensor& all, Duration timeout) {
  const auto limits = patience(timeout);
  return take_part(*member_, "all_gather of a tensor", limits, [&](const detail::Place& place) -> Result<void> {
    const auto what = "all_gather of a tensor";
    const auto count = static_cast<std::size_t>(own.size());
    if (!all || own.dtype() != all.dtype() || static_cast<std::size_t>(all.size()) != count * place.size())
      return member_->refuse(
          place.generation, what,
          {Errc::invalid_argument, fmt::format("{} {} of each of {} members do not fill a tensor of {} {}", count,
                                               gpuactors::to_string(own.dtype()), place.size(), all.size(),
                                               gpuactors::to_string(all.dtype()))});
    scratch_.resize(std::max(scratch_.size(), all.bytes()));
    if (const auto fetched = fetch(stream, own, place.rank * own.bytes()); !fetched)
      return member_->refuse(place.generation, what, fetched.error());
    const Operation operation{OperationKind::all_gather, own.dtype(), Reduction::sum, count * place.size()};
    GPUACTORS_TRY(member_->run(place.generation, operation, std::span{scratch_}.first(all.bytes()), limits));
    if (const auto stored = store(stream, all); !stored)
      return member_->refuse(place.generation, what, stored.error());
    return {};
  });
}

} // namespace gpuactors
