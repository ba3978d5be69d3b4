#include <gpuactors/ledger/event.hpp>

#include <utility>

namespace gpuactors {

Event Event::about(RequestId id, Kind kind, Errc code, std::string reason) {
  return Event{kind, id, {}, std::nullopt, {}, code, std::move(reason)};
}

Event Event::about(GroupId id, Kind kind, Errc code, std::string reason) {
  return Event{kind, {}, id, std::nullopt, {}, code, std::move(reason)};
}

Event Event::about(const Lease& lease, Kind kind, Errc code, std::string reason) {
  return Event{kind, lease.request, {}, lease, {}, code, std::move(reason)};
}

std::string_view to_string(Event::Kind kind) noexcept {
  switch (kind) {
  case Event::Kind::granted:
    return "granted";
  case Event::Kind::pending:
    return "pending";
  case Event::Kind::infeasible:
    return "infeasible";
  case Event::Kind::rejected:
    return "rejected";
  case Event::Kind::released:
    return "released";
  case Event::Kind::lost:
    return "lost";
  }
  return "unknown";
}

} // namespace gpuactors
