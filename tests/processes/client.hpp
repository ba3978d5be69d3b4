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

/// `reader BROKER CERTIFICATES LINK_MS NAME`: begins to read a stream without end from the actor of that name, says so
/// on standard error, and reads no more.
int run_reader(int argc, char** argv);

} // namespace gpuactors::test
