// What travels between actors: calls with user payloads, items of streamed replies, control messages, and the typed
// interfaces of the control actors. Type ids are append-only.
#pragma once

#include <gpuactors/base/clock.hpp>
#include <gpuactors/base/ids.hpp>
#include <gpuactors/v1/control.pb.h>
#include <gpuactors/wire/caf_version.hpp>
#include <gpuactors/wire/payload.hpp>

#include <cstdint>
#include <string>

namespace gpuactors {

/// A call of an actor's method, or a task: what the library sends for its users. Answered with a `Payload`.
///
/// CAF programs may send `(std::string method, Payload)` instead: the same without deadline and cancellation.
struct Call {
  /// Name of the method, or of the task.
  std::string method;
  Payload payload;
  /// Nobody waits for the answer after this point. On the wire it is the time that remains.
  TimePoint deadline = never;
  /// Unique among all clients, so that the call can be cancelled.
  CallId id;
  /// The caller wants the reply as a stream and allows `limits::stream_window` items to begin with.
  bool stream = false;
};

/// One item of a streamed reply, in order, before the call's own answer.
struct StreamItem {
  CallId call;
  Payload payload;
};

// -- how CAF reads and writes them ----------------------------------------------------------------

namespace detail {

inline std::int64_t to_remaining(TimePoint deadline) {
  return deadline == never ? -1 : std::max<std::int64_t>(0, Duration{deadline - Clock::now()}.count());
}

inline TimePoint from_remaining(std::int64_t remaining) {
  return remaining < 0 ? never : deadline_after(Clock::now(), Duration{remaining});
}

} // namespace detail

#if GPUACTORS_CAF_017

template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, Payload& x) {
  std::string type;
  std::string bytes;
  if constexpr (Inspector::reads_state) {
    auto encoded = x.encoded();
    if (encoded) {
      type = encoded->type_name();
      bytes = encoded->bytes();
    } else if constexpr (std::is_same_v<typename Inspector::result_type, caf::error>) {
      return caf::sec::invalid_argument;
    }
  }
  auto load = [&]() -> caf::error {
    x = Payload::from_bytes(std::move(type), std::move(bytes));
    return caf::none;
  };
  return f(caf::meta::type_name("Payload"), type, bytes, caf::meta::load_callback(load));
}

template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, Call& x) {
  std::int64_t remaining = 0;
  auto id = x.id.value();
  if constexpr (Inspector::reads_state)
    remaining = detail::to_remaining(x.deadline);
  auto load = [&]() -> caf::error {
    x.deadline = detail::from_remaining(remaining);
    x.id = CallId{id};
    return caf::none;
  };
  return f(caf::meta::type_name("Call"), x.method, x.payload, remaining, id, x.stream, caf::meta::load_callback(load));
}

template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, StreamItem& x) {
  auto call = x.call.value();
  auto load = [&]() -> caf::error {
    x.call = CallId{call};
    return caf::none;
  };
  return f(caf::meta::type_name("StreamItem"), call, x.payload, caf::meta::load_callback(load));
}

#else

template <class Inspector, class T>
bool inspect_id(Inspector& f, Id<T>& x) {
  auto get = [&x] { return x.value(); };
  auto set = [&x](std::uint64_t value) {
    x = Id<T>{value};
    return true;
  };
  return f.apply(get, set);
}

template <class Inspector, class Tag>
bool inspect(Inspector& f, Id<Tag>& x) {
  return inspect_id(f, x);
}

template <class Inspector>
bool inspect(Inspector& f, Payload& x) {
  std::string type;
  std::string bytes;
  if constexpr (!Inspector::is_loading) {
    auto encoded = x.encoded();
    if (!encoded) {
      f.set_error(caf::make_error(caf::sec::invalid_argument, encoded.error().message()));
      return false;
    }
    type = encoded->type_name();
    bytes = encoded->bytes();
  }
  if (!f.object(x).fields(f.field("type", type), f.field("bytes", bytes)))
    return false;
  if constexpr (Inspector::is_loading)
    x = Payload::from_bytes(std::move(type), std::move(bytes));
  return true;
}

template <class Inspector>
bool inspect(Inspector& f, Call& x) {
  auto get = [&x] { return detail::to_remaining(x.deadline); };
  auto set = [&x](std::int64_t remaining) {
    x.deadline = detail::from_remaining(remaining);
    return true;
  };
  return f.object(x).fields(f.field("method", x.method), f.field("payload", x.payload), f.field("remaining", get, set),
                            f.field("id", x.id), f.field("stream", x.stream));
}

template <class Inspector>
bool inspect(Inspector& f, StreamItem& x) {
  return f.object(x).fields(f.field("call", x.call), f.field("payload", x.payload));
}

#endif

// -- typed interfaces of the control actors -------------------------------------------------------

using caf_version::In;
using caf_version::Out;
using caf_version::Rpc;

/// Where something runs: the actor itself, and the control actor of its process (cancellation, stream credit).
using Placed = Out<v1::Started, caf::strong_actor_ptr, caf::strong_actor_ptr>;

/// The resource broker. Handles travel beside the messages: the client's port (for `ReclaimLease`), the agent, the
/// runner or actor with its control actor.
using BrokerHandle = caf::typed_actor<
    Rpc<In<v1::RegisterNode, caf::strong_actor_ptr>, Out<v1::Done>>,
    Rpc<In<v1::AcquireLease, caf::strong_actor_ptr>, Out<v1::Granted, caf::strong_actor_ptr, caf::strong_actor_ptr>>,
    Rpc<In<v1::CancelAcquire, caf::strong_actor_ptr>, Out<>>, Rpc<In<v1::ReleaseLease>, Out<>>,
    Rpc<In<v1::SpawnActor, Payload>, Out<v1::ActorInfo, caf::strong_actor_ptr, caf::strong_actor_ptr>>,
    Rpc<In<v1::FindActor>, Out<v1::ActorInfo, caf::strong_actor_ptr, caf::strong_actor_ptr>>,
    Rpc<In<v1::KillActor>, Out<v1::Done>>, Rpc<In<v1::GetState>, Out<v1::ClusterState>>, Rpc<In<v1::LeaseEnded>, Out<>>,
    Rpc<In<v1::Tick>, Out<>>>;

/// A node's agent, and a worker below it: both start and end what runs under leases.
using AgentHandle =
    caf::typed_actor<Rpc<In<v1::StartRunner>, Placed>, Rpc<In<v1::StartActor, Payload>, Placed>,
                     Rpc<In<v1::EndLease>, Out<v1::LeaseEnded>>, Rpc<In<v1::LeaseEnded>, Out<>>,
                     Rpc<In<v1::CancelCall>, Out<>>, Rpc<In<v1::StreamCredit>, Out<>>, Rpc<In<v1::Tick>, Out<>>>;

} // namespace gpuactors

CAF_BEGIN_TYPE_ID_BLOCK(gpuactors, caf::first_custom_type_id)
CAF_ADD_TYPE_ID(gpuactors, (gpuactors::Payload))
CAF_ADD_TYPE_ID(gpuactors, (gpuactors::Call))
CAF_ADD_TYPE_ID(gpuactors, (gpuactors::StreamItem))
CAF_ADD_TYPE_ID(gpuactors, (gpuactors::v1::RegisterNode))
CAF_ADD_TYPE_ID(gpuactors, (gpuactors::v1::Done))
CAF_ADD_TYPE_ID(gpuactors, (gpuactors::v1::AcquireLease))
CAF_ADD_TYPE_ID(gpuactors, (gpuactors::v1::Granted))
CAF_ADD_TYPE_ID(gpuactors, (gpuactors::v1::CancelAcquire))
CAF_ADD_TYPE_ID(gpuactors, (gpuactors::v1::ReleaseLease))
CAF_ADD_TYPE_ID(gpuactors, (gpuactors::v1::ReclaimLease))
CAF_ADD_TYPE_ID(gpuactors, (gpuactors::v1::SpawnActor))
CAF_ADD_TYPE_ID(gpuactors, (gpuactors::v1::ActorInfo))
CAF_ADD_TYPE_ID(gpuactors, (gpuactors::v1::FindActor))
CAF_ADD_TYPE_ID(gpuactors, (gpuactors::v1::KillActor))
CAF_ADD_TYPE_ID(gpuactors, (gpuactors::v1::GetState))
CAF_ADD_TYPE_ID(gpuactors, (gpuactors::v1::ClusterState))
CAF_ADD_TYPE_ID(gpuactors, (gpuactors::v1::LeaseEnded))
CAF_ADD_TYPE_ID(gpuactors, (gpuactors::v1::Tick))
CAF_ADD_TYPE_ID(gpuactors, (gpuactors::v1::StartRunner))
CAF_ADD_TYPE_ID(gpuactors, (gpuactors::v1::StartActor))
CAF_ADD_TYPE_ID(gpuactors, (gpuactors::v1::Started))
CAF_ADD_TYPE_ID(gpuactors, (gpuactors::v1::EndLease))
CAF_ADD_TYPE_ID(gpuactors, (gpuactors::v1::CancelCall))
CAF_ADD_TYPE_ID(gpuactors, (gpuactors::v1::StreamCredit))
CAF_END_TYPE_ID_BLOCK(gpuactors)
