// What a network says of itself as a model.
#pragma once

#include "replica.hpp"

#include <apps/nn/network.hpp>

namespace serve {

/// What the one input and the one output of a network are called.
inline constexpr auto network_input = "x";
inline constexpr auto network_output = "y";

/// The description of replicas with a network of this form. Pure.
[[nodiscard]] wire::ReplicaDescription describe_network(const nn::NetworkSpec& spec);

} // namespace serve
