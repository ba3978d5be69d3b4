// Actors with peers, for the tests of groups, and how the tests call all of them.
#pragma once

#include <gpuactors/gpuactors.hpp>

#include <support/messages.hpp>
#include <support/results.hpp>

#include <atomic>
#include <string>
#include <vector>

namespace gpuactors::test {

inline constexpr ActorKind peer{"peer"};
/// These take an array, and answer with what became of it. `reduce_by` begins with the number of a `Reduction`.
inline constexpr Method<Vector, Vector> reduce{"reduce"};
inline constexpr Method<Vector, Vector> reduce_by{"reduce_by"};
inline constexpr Method<Vector, Vector> gather{"gather"};
/// The first element is the root, for `spread`.
inline constexpr Method<Vector, Vector> spread{"spread"};
/// The same with tensors on the member's device.
inline constexpr Method<Vector, Vector> reduce_tensor{"reduce_tensor"};
inline constexpr Method<Vector, Vector> gather_tensor{"gather_tensor"};
inline constexpr Method<Vector, Vector> spread_tensor{"spread_tensor"};
/// Arrays of all types, gathered, broadcast from rank 0, and summed unless they are of bytes.
inline constexpr Method<Vector, Vector> every_type{"every_type"};
/// A barrier, with a timeout in milliseconds; 0: none.
inline constexpr Method<Number> meet{"meet"};
inline constexpr Method<Text> give_up{"give_up"};
/// "1 of 3"
inline constexpr Method<google::protobuf::Empty, Text> place_of{"place_of"};

/// Calls of `meet` that have begun, in all tests.
std::atomic<int>& meetings();

/// A cluster with a device for members that ask for a part of it.
Cluster embed_peers();

/// Starts members named "a", "b", ...; with a tenth of the device each where `gpus` says so.
std::vector<ActorRef> spawn_peers(Cluster& cluster, std::size_t count, double gpus = 0, int max_restarts = 0);

/// An array of other numbers for each member, the same each time.
std::vector<Vector> arrays_of(std::size_t members, std::size_t elements);

/// Calls all members with an array each and returns what they answer.
std::vector<Result<Vector>> call_each(const std::vector<ActorRef>& members, const Method<Vector, Vector>& method,
                                      const std::vector<Vector>& arrays);

/// The values of answers that are all there.
std::vector<std::vector<float>> values_of(std::vector<Result<Vector>> answers);

Vector vector_of(const std::vector<float>& values);

} // namespace gpuactors::test
