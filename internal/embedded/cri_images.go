package embedded

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// No image is ever needed here. The service is there because clients insist on
// it: crictl asks ImageFsInfo before it does anything with containers.

// imageID makes an ID for an image out of its name.
func imageID(name string) string {
	sum := sha256.Sum256([]byte(name))
	return "sha256:" + hex.EncodeToString(sum[:])
}

func imageOf(name string) *runtimeapi.Image {
	return &runtimeapi.Image{
		Id:       imageID(name),
		RepoTags: []string{name},
		Size:     1,
		Spec:     &runtimeapi.ImageSpec{Image: name},
	}
}

// images gives those that containers were made from, in the order of first use.
func (r *Runtime) images(filter *runtimeapi.ImageFilter) []*runtimeapi.Image {
	wanted := filter.GetImage().GetImage()
	r.mu.RLock()
	defer r.mu.RUnlock()
	var out []*runtimeapi.Image
	seen := map[string]bool{}
	for _, c := range r.containers.order {
		name := c.view.list.GetImage().GetImage()
		if name == "" || seen[name] || wanted != "" && wanted != name && wanted != imageID(name) {
			continue
		}
		seen[name] = true
		out = append(out, imageOf(name))
	}
	return out
}

// ListImages is the CRI's: the images of the containers there are.
func (r *Runtime) ListImages(ctx context.Context, req *runtimeapi.ListImagesRequest) (*runtimeapi.ListImagesResponse, error) {
	return call(ctx, r, "ListImages", nil, func([]mangle) (*runtimeapi.ListImagesResponse, error) {
		return &runtimeapi.ListImagesResponse{Images: r.images(req.Filter)}, nil
	})
}

// ImageStatus is the CRI's. An image that no container uses is not there, and that
// is not an error.
func (r *Runtime) ImageStatus(ctx context.Context, req *runtimeapi.ImageStatusRequest) (*runtimeapi.ImageStatusResponse, error) {
	return call(ctx, r, "ImageStatus", nil, func([]mangle) (*runtimeapi.ImageStatusResponse, error) {
		resp := &runtimeapi.ImageStatusResponse{}
		if found := r.images(&runtimeapi.ImageFilter{Image: req.Image}); len(found) > 0 && req.GetImage().GetImage() != "" {
			resp.Image = found[0]
		}
		return resp, nil
	})
}

// PullImage is the CRI's. It pulls nothing and succeeds.
func (r *Runtime) PullImage(ctx context.Context, req *runtimeapi.PullImageRequest) (*runtimeapi.PullImageResponse, error) {
	return call(ctx, r, "PullImage", nil, func([]mangle) (*runtimeapi.PullImageResponse, error) {
		return &runtimeapi.PullImageResponse{ImageRef: imageID(req.GetImage().GetImage())}, nil
	})
}

// RemoveImage is the CRI's. It removes nothing and succeeds.
func (r *Runtime) RemoveImage(ctx context.Context, _ *runtimeapi.RemoveImageRequest) (*runtimeapi.RemoveImageResponse, error) {
	return call(ctx, r, "RemoveImage", nil, func([]mangle) (*runtimeapi.RemoveImageResponse, error) {
		return &runtimeapi.RemoveImageResponse{}, nil
	})
}

// ImageFsInfo is the CRI's: no file system is used.
func (r *Runtime) ImageFsInfo(ctx context.Context, _ *runtimeapi.ImageFsInfoRequest) (*runtimeapi.ImageFsInfoResponse, error) {
	return call(ctx, r, "ImageFsInfo", nil, func([]mangle) (*runtimeapi.ImageFsInfoResponse, error) {
		return &runtimeapi.ImageFsInfoResponse{ImageFilesystems: []*runtimeapi.FilesystemUsage{{
			Timestamp:  time.Now().UnixNano(),
			FsId:       &runtimeapi.FilesystemIdentifier{Mountpoint: "/"},
			UsedBytes:  &runtimeapi.UInt64Value{},
			InodesUsed: &runtimeapi.UInt64Value{},
		}}}, nil
	})
}
