// What tests ask of the fake NCCL.
#pragma once

extern "C" {
/// The calls so far but those of ncclCommGetAsyncError, as "ncclAllReduce 1" for rank 1, with spaces between them; and
/// forgets them. Valid until the next call on this thread.
const char* fake_nccl_take_calls();
/// Has later calls of a function fail with this code; 0: no more. With "ncclCommGetAsyncError" it is the state of all
/// communicators.
void fake_nccl_fail(const char* function, int code);
/// Each later communicator, and each later sum, is said to be in progress by so many calls of ncclCommGetAsyncError.
void fake_nccl_begin_slowly(int calls);
/// Whether ends of communicators wait until this is called again with false.
void fake_nccl_hold_aborts(bool hold);
/// Communicators that exist.
int fake_nccl_live();
}
