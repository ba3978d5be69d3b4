// Parts of a cluster's state in words, as subcommands and pages show them. All are pure; any thread.
#pragma once

#include <gpuactors/gpuactors.hpp>

#include <cstdint>
#include <string>
#include <string_view>

namespace gpuactors::cli {

/// The owner that stands for each client without a quota of its own (`Cluster::set_quota`).
inline constexpr std::string_view each_client = "*";

/// Returns the devices of a lease for people: "0 (0.5, 512 MiB), 1 (1, 1 GiB)"; "none" without devices.
[[nodiscard]] std::string devices_in_words(const v1::Lease& lease);

/// Returns "n0: 0 (0.5, 512 MiB)"; only the node if the lease has no devices, nothing if it is nowhere.
[[nodiscard]] std::string place_in_words(const v1::Lease& lease);

/// As `place_in_words` of a lease; "no place" while the bundle has none.
[[nodiscard]] std::string bundle_in_words(const v1::BundleInfo& bundle);

/// Returns a bundle in the form of a lease, for the functions that show the devices of leases.
[[nodiscard]] v1::Lease lease_like(const v1::BundleInfo& bundle);

/// Returns "a=1, b=0.5", in the order of the names; host memory in bytes for people, "host_memory=2 GiB".
[[nodiscard]] std::string amounts_in_words(const google::protobuf::Map<std::string, std::int64_t>& units);

/// Returns "a=x, b=y", in the order of the names.
[[nodiscard]] std::string labels_in_words(const google::protobuf::Map<std::string, std::string>& labels);

/// Whether the node gets nothing new, also where it is away. Brokers of earlier releases say it in the state alone.
[[nodiscard]] bool is_draining(const v1::NodeState& node);

/// Returns "NAME", or "NAME_SPACE/NAME".
[[nodiscard]] std::string full_name(const v1::ActorInfo& actor);

/// As `full_name`; "TYPE ID" of an actor without a name.
[[nodiscard]] std::string name_or_number(const v1::ActorInfo& actor);

/// Returns how many of the actor's restarts count against its `max_restarts`: moves off emptied nodes do not, nor do
/// those before a life of its `restart_window`.
[[nodiscard]] std::int32_t counted_restarts(const v1::ActorInfo& actor);

/// Returns those with their bound: "1 of 3"; without "of" for an actor that always restarts.
[[nodiscard]] std::string counted_in_words(const v1::ActorInfo& actor);

/// Returns all restarts, and how many of them count and how many were moves where that is not all: "4", "4 (1 of 3
/// count, 2 were moves)".
[[nodiscard]] std::string restarts_in_words(const v1::ActorInfo& actor);

/// Returns the defaults of a type for requests that do not say what they need: "gpus 0.5, cpus 1". An actor type that
/// owns a share or devices and has no default needs "a share" or "a device" all the same; else there is "nothing".
[[nodiscard]] std::string needs_in_words(const v1::TypeNeeds& needs, Ownership ownership = Ownership::any);

/// Returns `before` and "others run 0.1.1, 0.1.2": the releases of nodes and clients that differ from the broker's.
/// Empty if there are none.
[[nodiscard]] std::string other_releases(const v1::ClusterState& state, std::string_view before);

/// Returns a line of a log with its time (UTC), node and source; a source that may be several actors is in brackets, as
/// in the output of the node.
[[nodiscard]] std::string log_line_in_words(const LogRecord& line);

/// Returns the id of the actor's process; 0 while it has none.
[[nodiscard]] std::uint32_t pid_of(const v1::ActorInfo& actor);

} // namespace gpuactors::cli
