// The messages between actors, as CAF knows them: calls with user payloads, items of streamed replies, control
// messages, and the typed interfaces of the control actors. Type ids are append-only.
#pragma once

#include <gpuactors/base/clock.hpp>
#include <gpuactors/base/ids.hpp>
#include <gpuactors/v1/control.pb.h>
#include <gpuactors/wire/caf_version.hpp>
#include <gpuactors/wire/call.hpp>
#include <gpuactors/wire/content.hpp>
#include <gpuactors/wire/payload.hpp>

#include <cstdint>
#include <string>

namespace gpuactors {

// -- how CAF reads and writes them ----------------------------------------------------------------

namespace detail {

inline std::int64_t to_remaining(TimePoint deadline, TimePoint now) {
  return deadline == never ? -1 : std::max<std::int64_t>(0, Duration{deadline - now}.count());
}

inline TimePoint from_remaining(std::int64_t remaining, TimePoint now) {
  return remaining < 0 ? never : deadline_after(now, Duration{remaining});
}

inline std::int64_t to_age(TimePoint made, TimePoint now) {
  return made == TimePoint{} ? -1 : std::max<std::int64_t>(0, Duration{now - made}.count());
}

/// Returns `TimePoint{}` for an age that is longer than the clock has run.
inline TimePoint from_age(std::int64_t age, TimePoint now) {
  return age < 0 || age > Duration{now.time_since_epoch()}.count() ? TimePoint{} : now - Duration{age};
}

struct PayloadFields {
  std::tuple<std::string, std::string> values;

  bool save(const Payload& x) {
    return x.write_to(std::get<0>(values), std::get<1>(values));
  }

  void load(Payload& x) {
    x = Payload::from_bytes(std::move(std::get<0>(values)), std::move(std::get<1>(values)));
  }
};

struct CallFields {
  // Method (of a call that is traced, with a NUL and the bytes of its context behind it), type and bytes of the
  // payload, remaining time in nanoseconds (-1: no deadline), id, stream, nanoseconds since it was made (-1: not said).
  std::tuple<std::string, std::string, std::string, std::int64_t, std::uint64_t, bool, std::int64_t> values;

  bool save(const Call& x) {
    auto& [method, type, bytes, remaining, id, stream, age] = values;
    const auto now = Clock::now();
    method = x.method;
    if (x.trace.valid())
      method.append(1, '\0').append(to_bytes(x.trace));
    remaining = to_remaining(x.deadline, now);
    id = x.id.value();
    stream = x.stream;
    age = to_age(x.made, now);
    return x.payload.write_to(type, bytes);
  }

  void load(Call& x) {
    auto& [method, type, bytes, remaining, id, stream, age] = values;
    const auto now = Clock::now();
    const auto trace = take_trace(method);
    x = Call{std::move(method),
             Payload::from_bytes(std::move(type), std::move(bytes)),
             from_remaining(remaining, now),
             CallId{id},
             stream,
             from_age(age, now),
             trace};
  }

private:
  static TraceContext take_trace(std::string& method) {
    const auto end = method.find('\0');
    if (end == std::string::npos)
      return {};
    const auto trace = trace_from_bytes(std::string_view{method}.substr(end + 1));
    method.resize(end);
    return trace;
  }
};

struct StreamItemFields {
  std::tuple<std::uint64_t, std::string, std::string> values;

  bool save(const StreamItem& x) {
    std::get<0>(values) = x.call.value();
    return x.payload.write_to(std::get<1>(values), std::get<2>(values));
  }

  void load(StreamItem& x) {
    auto& [call, type, bytes] = values;
    x = StreamItem{CallId{call}, Payload::from_bytes(std::move(type), std::move(bytes))};
  }
};

} // namespace detail

template <class Inspector>
caf_version::InspectResult<Inspector> inspect(Inspector& f, Payload& x) {
  return caf_version::inspect_as<detail::PayloadFields>(f, "Payload", x);
}

template <class Inspector>
caf_version::InspectResult<Inspector> inspect(Inspector& f, Call& x) {
  return caf_version::inspect_as<detail::CallFields>(f, "Call", x);
}

template <class Inspector>
caf_version::InspectResult<Inspector> inspect(Inspector& f, StreamItem& x) {
  return caf_version::inspect_as<detail::StreamItemFields>(f, "StreamItem", x);
}

// -- typed interfaces of the control actors -------------------------------------------------------

using caf_version::In;
using caf_version::Out;
using caf_version::Rpc;

/// The result of an order to start something. If both sides are in one process, the actor itself and the control actor
/// of its process (for cancellation and stream credit) travel with the message; otherwise both are null, and the
/// message has an address.
template <class Message>
using Placed = Out<Message, caf::strong_actor_ptr, caf::strong_actor_ptr>;

/// A one-way message to a control actor. Messages to another process have no CAF answer, because CAF silently drops an
/// answer whose connection broke. Instead, agents and workers report, and the broker tracks the reports that it waits
/// for.
template <class... Ts>
using Tell = Rpc<In<Ts...>, Out<>>;

/// The resource broker. Messages with an answer come from clients, which ask again after a lost connection. Agents send
/// `RegisterNode` with their handle, and then report what becomes of leases.
using BrokerHandle = caf::typed_actor<
    Rpc<In<v1::RegisterNode, caf::strong_actor_ptr>, Out<v1::Done>>,
    Rpc<In<v1::Hello, caf::strong_actor_ptr>, Out<v1::Done>>, Rpc<In<v1::AcquireLease>, Placed<v1::Granted>>,
    Rpc<In<v1::CancelAcquire>, Out<v1::Done>>, Tell<v1::ReleaseLease>,
    Rpc<In<v1::SpawnActor, Payload>, Placed<v1::ActorInfo>>, Rpc<In<v1::FindActor>, Placed<v1::ActorInfo>>,
    Rpc<In<v1::KillActor>, Out<v1::Done>>, Rpc<In<v1::GetState>, Out<v1::ClusterState>>,
    Tell<v1::LeaseStarted, caf::strong_actor_ptr, caf::strong_actor_ptr>, Tell<v1::LeaseEnded>, Tell<v1::LeaseStuck>,
    Rpc<In<v1::SubmitGroup>, Out<v1::GroupInfo>>, Rpc<In<v1::ReleaseGroup>, Out<v1::Done>>,
    Rpc<In<v1::DrainNode>, Out<v1::Done>>, Tell<v1::PeerDown>, Tell<v1::Tick>,
    Rpc<In<v1::GetTypes>, Out<v1::TypeCatalog>>, Tell<v1::ActorSaved>, Tell<v1::HolderUsage>,
    Rpc<In<v1::Withdraw>, Out<v1::Done>>, Tell<v1::HeldAhead>, Tell<v1::DeviceFault>, Tell<v1::DeviceUse>,
    Rpc<In<v1::Goodbye>, Out<v1::Done>>, Rpc<In<v1::SetQuota>, Out<v1::Done>>, Tell<v1::NodePrograms>,
    Rpc<In<v1::FollowState>, Out<v1::StateChanges>>, Tell<v1::TakenOver>>;

/// A node's agent: orders from the broker, reports from workers and of devices.
using AgentHandle =
    caf::typed_actor<Tell<v1::StartRunner>, Tell<v1::StartActor, Payload>, Tell<v1::EndLease>,
                     Tell<v1::LeaseStarted, caf::strong_actor_ptr, caf::strong_actor_ptr>, Tell<v1::LeaseEnded>,
                     Tell<v1::LeaseStuck>, Rpc<In<v1::WorkerHello, caf::strong_actor_ptr>, Out<v1::Done>>,
                     Tell<v1::WorkerExited>, Tell<v1::PeerDown>, Tell<v1::LinkChanged, caf::strong_actor_ptr>,
                     Tell<v1::Tick>, Rpc<In<v1::ReadLog>, Out<v1::LogLines>>, Tell<v1::ActorSaved>,
                     Tell<v1::HolderUsage>, Tell<v1::DeviceFault>, Tell<v1::DeviceUse>, Tell<v1::DrainNode>,
                     Tell<v1::Goodbye>, Tell<v1::NodePrograms>>;

/// A worker: orders from its agent, and what clients ask of the holders in it.
using WorkerHandle =
    caf::typed_actor<Tell<v1::StartRunner>, Tell<v1::StartActor, Payload>, Tell<v1::EndLease>, Tell<v1::LeaseEnded>,
                     Rpc<In<v1::FindHolder>, Out<v1::Started, caf::strong_actor_ptr>>, Tell<v1::CancelCall>,
                     Tell<v1::StreamCredit>, Tell<v1::Tick>, Tell<v1::DeviceFault>, Tell<v1::EndProcess>>;

// -- what clients may send to them ----------------------------------------------------------------

/// The messages that a client's certificate permits. The first element tells the messages of a control actor apart.
template <class... Messages>
struct FromClients {
  static bool permits(const MessageContent& content) {
    return (content.begins_with<Messages>() || ...);
  }
};

using BrokerFromClients = FromClients<v1::Hello, v1::Goodbye, v1::AcquireLease, v1::CancelAcquire, v1::ReleaseLease,
                                      v1::SpawnActor, v1::FindActor, v1::KillActor, v1::GetState, v1::SubmitGroup,
                                      v1::ReleaseGroup, v1::GetTypes, v1::Withdraw>;
using AgentFromClients = FromClients<v1::ReadLog>;
using WorkerFromClients = FromClients<v1::FindHolder, v1::CancelCall, v1::StreamCredit>;
/// Calls, also those of CAF programs: a method's name and its input.
using HolderFromClients = FromClients<Call, std::string>;

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
CAF_ADD_TYPE_ID(gpuactors, (gpuactors::v1::SubmitGroup))
CAF_ADD_TYPE_ID(gpuactors, (gpuactors::v1::GroupInfo))
CAF_ADD_TYPE_ID(gpuactors, (gpuactors::v1::ReleaseGroup))
CAF_ADD_TYPE_ID(gpuactors, (gpuactors::v1::DrainNode))
CAF_ADD_TYPE_ID(gpuactors, (gpuactors::v1::LeaseStarted))
CAF_ADD_TYPE_ID(gpuactors, (gpuactors::v1::LeaseStuck))
CAF_ADD_TYPE_ID(gpuactors, (gpuactors::v1::Hello))
CAF_ADD_TYPE_ID(gpuactors, (gpuactors::v1::FindHolder))
CAF_ADD_TYPE_ID(gpuactors, (gpuactors::v1::WorkerHello))
CAF_ADD_TYPE_ID(gpuactors, (gpuactors::v1::WorkerExited))
CAF_ADD_TYPE_ID(gpuactors, (gpuactors::v1::PeerDown))
CAF_ADD_TYPE_ID(gpuactors, (gpuactors::v1::LinkChanged))
CAF_ADD_TYPE_ID(gpuactors, (gpuactors::v1::GetTypes))
CAF_ADD_TYPE_ID(gpuactors, (gpuactors::v1::TypeCatalog))
CAF_ADD_TYPE_ID(gpuactors, (gpuactors::v1::ActorSaved))
CAF_ADD_TYPE_ID(gpuactors, (gpuactors::v1::HolderUsage))
CAF_ADD_TYPE_ID(gpuactors, (gpuactors::v1::ReadLog))
CAF_ADD_TYPE_ID(gpuactors, (gpuactors::v1::LogLines))
CAF_ADD_TYPE_ID(gpuactors, (gpuactors::v1::Withdraw))
CAF_ADD_TYPE_ID(gpuactors, (gpuactors::v1::HeldAhead))
CAF_ADD_TYPE_ID(gpuactors, (gpuactors::v1::DeviceFault))
CAF_ADD_TYPE_ID(gpuactors, (gpuactors::v1::DeviceUse))
CAF_ADD_TYPE_ID(gpuactors, (gpuactors::v1::Goodbye))
CAF_ADD_TYPE_ID(gpuactors, (gpuactors::v1::SetQuota))
CAF_ADD_TYPE_ID(gpuactors, (gpuactors::v1::NodePrograms))
CAF_ADD_TYPE_ID(gpuactors, (gpuactors::v1::FollowState))
CAF_ADD_TYPE_ID(gpuactors, (gpuactors::v1::StateChanges))
CAF_ADD_TYPE_ID(gpuactors, (gpuactors::v1::TakenOver))
CAF_ADD_TYPE_ID(gpuactors, (gpuactors::v1::EndProcess))
CAF_END_TYPE_ID_BLOCK(gpuactors)
