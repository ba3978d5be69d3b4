// A client process of these tests.
#pragma once

#include <gpuactors/gpuactors.hpp>

#include <string>

namespace gpuactors::test {

/// A client whose heartbeats are as fast as those of the other processes of these tests.
Result<Cluster> connect_quickly(const std::string& broker, const std::string& certificates,
                                std::chrono::milliseconds link, Duration reconnect_grace = {});

/// `client BROKER CERTIFICATES LINK_MS`: owns two actors and runs tasks until it is killed.
int run_client(int argc, char** argv);

/// `guest BROKER CERTIFICATES LINK_MS SECONDS`: owns the actor "guest", and asks for so many seconds to come back when
/// its connection is lost. SIGTERM has it call the actor once more and close its cluster.
int run_guest(int argc, char** argv);

/// `reader BROKER CERTIFICATES LINK_MS NAME METHOD`: begins to read a stream without end from the actor of that name,
/// says so on standard error, and reads no more.
int run_reader(int argc, char** argv);

/// `local`: starts a `LocalCluster` of two nodes with an actor on each, prints its folder and then the pids of all its
/// processes, and waits until it is killed.
int run_local();

/// Starts a `LocalCluster` although the program does not begin as it must, in one of these ways: "never" asks whether
/// it is a worker; "strays", asking about other arguments than its own; "leaves" when it is started again. Prints the
/// error.
int run_misuse(const std::string& how, int argc);

} // namespace gpuactors::test
