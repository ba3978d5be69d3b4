// Strong identifiers: the compiler tells apart the ids of leases, requests, actors and so on.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

namespace gpuactors {

/// A 64-bit identifier that converts to no other kind of identifier. Zero means "none".
template <class Tag>
class Id {
public:
  constexpr Id() = default;

  constexpr explicit Id(std::uint64_t value) : value_(value) {
    // nop
  }

  [[nodiscard]] constexpr std::uint64_t value() const noexcept {
    return value_;
  }

  /// Returns whether the id is not "none".
  constexpr explicit operator bool() const noexcept {
    return value_ != 0;
  }

  friend constexpr auto operator<=>(Id, Id) = default;

private:
  std::uint64_t value_ = 0;
};

template <class Tag>
[[nodiscard]] std::string to_string(Id<Tag> id) {
  return std::to_string(id.value());
}

/// Id of a request for resources, from its submission to its end.
using RequestId = Id<struct RequestTag>;
/// Id of a grant of resources to one holder.
using LeaseId = Id<struct LeaseTag>;
/// Id of an actor, the same across restarts.
using ActorId = Id<struct ActorTag>;
/// Id of a reserved set of bundles.
using GroupId = Id<struct GroupTag>;
/// Number of a type of tasks or actors in one ledger.
using TypeId = Id<struct TypeTag>;
/// Id of a call, unique among all clients: it holds a random number of its caller.
using CallId = Id<struct CallTag>;

} // namespace gpuactors

template <class Tag>
struct std::hash<gpuactors::Id<Tag>> {
  std::size_t operator()(gpuactors::Id<Tag> id) const noexcept {
    return std::hash<std::uint64_t>{}(id.value());
  }
};
