// What must hold of the ledger's public picture at any time, added up from its leases and groups alone.
#pragma once

#include <gpuactors/ledger/ledger.hpp>

#include <string>

namespace history {

/// Conservation of share and bytes on every device, exclusiveness, and no lease without a node, group or holder.
/// @returns what is wrong, or nothing.
std::string broken_books(const gpuactors::Ledger& ledger);

} // namespace history
