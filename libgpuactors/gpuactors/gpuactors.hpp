// What nearly every program needs, in one include. Not in it: teams (collective/team.hpp), clusters of processes for
// tests (cluster/local_cluster.hpp) and devices that fail on command (device/faulty.hpp).
#pragma once

#include <gpuactors/actor/actor.hpp>
#include <gpuactors/actor/registry.hpp>
#include <gpuactors/actor/source_task.hpp>
#include <gpuactors/actor/task.hpp>
#include <gpuactors/actor/tensor_store.hpp>
#include <gpuactors/base/stop_signals.hpp>
#include <gpuactors/cluster/actor_pool.hpp>
#include <gpuactors/cluster/cluster.hpp>
#include <gpuactors/cluster/daemon.hpp>
#include <gpuactors/collective/collective.hpp>
#include <gpuactors/collective/group.hpp>
#include <gpuactors/device/reservation.hpp>
#include <gpuactors/trace/span.hpp>
#include <gpuactors/wire/json.hpp>
