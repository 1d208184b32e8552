#pragma once
// Where the sequences of a pack meet. A room's launch code is written for one problem; in a pack
// (kernels/core/batch.hpp) it runs once for each sequence, on a host thread of its own, and the sequences meet where
// they launch a program or, on the device, allocate an array: what they ask for there is done for all of them at once,
// in their order. A place is served when every sequence that still runs waits somewhere, so neither bits nor order hang
// on the threads, and a sequence that launches once more than its neighbours is served without them.
#include <cstdint>
#include <exception>
#include <functional>
#include <span>

namespace assay::pack {

/// A sequence's request at a place where all meet; derived types hold whatever a place needs besides. `error`
/// is thrown where the sequence waits.
struct Request {
  std::exception_ptr error = nullptr;
};

/// A place is a function that serves requests, in the order of their sequences, and what must be equal in them.
struct Place {
  void (*serve)(std::span<Request* const> requests);
  std::intptr_t key = 0;
  friend bool operator==(const Place&, const Place&) = default;
};

/// Whether this thread runs a sequence of a pack.
bool active();
/// Waits until this sequence's request has been served. Throws its error.
void meet(const Place& place, Request& request);
/// Runs body(0), ..., body(sequences - 1), which may meet. Where some throw, the others are released, and the error of
/// the first comes out with its number: an InputError as one, any other as a std::runtime_error.
void run(int sequences, const std::function<void(int)>& body);

}  // namespace assay::pack
