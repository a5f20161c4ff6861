// Package cgrouptree keeps a directory that looks like a version 2 cgroup
// hierarchy of the containers of an embedded runtime.
//
// Whoever watches it sees what the kernel would show, in its order: the directory
// appears complete, cgroup.events of the container and of its ancestors turns to
// "populated 1", later to "populated 0", and the directory goes. Unlike in a
// cgroup file system
//
//   - the files exist of their own: a removal can be seen of each of them, a little
//     before that of the directory (the kernel removes all at once, and tells only
//     about the directory);
//   - a new directory is moved into place, which inotify reports as IN_MOVED_TO
//     where the kernel's is IN_CREATE (fsnotify makes both a Create);
//   - st_ino is a real file system's, so a cgroup ID can be as small as one there.
package cgrouptree
