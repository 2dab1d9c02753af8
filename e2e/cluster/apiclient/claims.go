// SPDX-License-Identifier: Apache-2.0

package apiclient

import "context"

// Attributes of a device in a ResourceSlice by which Multus finds it.
const (
	attributeDeviceID = "k8s.cni.cncf.io/deviceID"
	attributeResource = "k8s.cni.cncf.io/resourceName"
)

const resourceGroup = "/apis/resource.k8s.io/v1/"

// allocated is a device of a claim's allocation.
type allocated struct{ Driver, Pool, Device string }

// ClaimedDevices are the devices that claims of a pod got, by the resource that the device's
// own attribute names; those without the attributes are left out.
func (c *Client) ClaimedDevices(ctx context.Context, namespace, pod string) (map[string][]string, error) {
	var p struct {
		Status struct {
			ResourceClaimStatuses []struct{ ResourceClaimName string }
		}
	}
	if err := c.get(ctx, "/api/v1/namespaces/"+namespace+"/pods/"+pod, &p); err != nil {
		return nil, err
	}
	out := map[string][]string{}
	for _, s := range p.Status.ResourceClaimStatuses {
		var claim struct {
			Status struct {
				Allocation struct {
					Devices struct{ Results []allocated }
				}
			}
		}
		if err := c.get(ctx, resourceGroup+"namespaces/"+namespace+"/resourceclaims/"+s.ResourceClaimName, &claim); err != nil {
			return nil, err
		}
		for _, a := range claim.Status.Allocation.Devices.Results {
			resource, id, err := c.published(ctx, a)
			if err != nil {
				return nil, err
			}
			if resource != "" && id != "" {
				out[resource] = append(out[resource], id)
			}
		}
	}
	return out, nil
}

// published is what a driver says of a device in its ResourceSlices.
func (c *Client) published(ctx context.Context, a allocated) (resource, id string, err error) {
	var slices struct {
		Items []struct {
			Spec struct {
				Driver  string
				Pool    struct{ Name string }
				Devices []struct {
					Name       string
					Attributes map[string]struct{ String string }
				}
			}
		}
	}
	if err := c.get(ctx, resourceGroup+"resourceslices", &slices); err != nil {
		return "", "", err
	}
	for _, s := range slices.Items {
		for _, d := range s.Spec.Devices {
			if s.Spec.Driver == a.Driver && s.Spec.Pool.Name == a.Pool && d.Name == a.Device {
				return d.Attributes[attributeResource].String, d.Attributes[attributeDeviceID].String, nil
			}
		}
	}
	return "", "", nil
}
